"""A model of the lease protocol: all that can happen within its bounds is tried.

`table` has the rows and their statements, `world` who is on them, `protocol` and `workers` the
steps, `terms` the bounds, `guards` the switches, `invariants` what has to hold, and `explorer` the
search. `test_lease_model` takes the guards out one by one; `test_model_conforms` holds the model
to the SQL on PostgreSQL.
"""
