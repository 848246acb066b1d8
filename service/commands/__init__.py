"""The commands of `reconciler`, one file each; `line` puts them on the command line."""
