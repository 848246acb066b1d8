"""What a failed connection means to an operator: what happened, the setting to look at, the remedy.

No text of these holds a secret: libraries' own words are masked, settings are named, never shown.
"""
