"""The other published systems of the paper's tables, one file each."""
