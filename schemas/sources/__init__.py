"""Sources as they are: pure decoders from what a connector or PSP sends to the contract's events.

Each decoder is a value made of its settings and called once a record; it sees nothing but the
record. What a decoder takes as the version, and where that is weak, stands at its head:

| module | source | version | weak where |
|---|---|---|---|
| `cloudevents` | the own contract | `entityversion` | nowhere: the source counts |
| `debezium` | a table's change events | position in the log | the log starts again: raise `epoch` |
| `stripe` | webhook events | second of `created`, type | two of one second: ask the PSP |
| `adyen` | standard notifications | none: facts, added up | a lost one is not missed: ask |
| `mapping` | other JSON, declared | a declared path | as the declared field is |
"""
