"""A classifier for the nodes of one graph, and what turns a user's tables into its input."""
