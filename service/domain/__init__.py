"""Pure payment rules: money, versions, fold, status, discrepancies, decisions."""
