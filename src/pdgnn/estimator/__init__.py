"""A classifier for one's own graph: a portfolio of models, an honest estimate, a folder to keep."""
