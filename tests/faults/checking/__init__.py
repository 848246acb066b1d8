"""The claims that the checker of the fault runs makes about a history, a file a group."""
