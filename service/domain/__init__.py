"""Pure payment rules: money, versions, fold, status, discrepancies, decisions.

Values are replaced, never changed in place; only the step that has just made a copy fills it in.
They are not frozen dataclasses: a frozen one takes four times as long to make, and every event
makes five of them.
"""
