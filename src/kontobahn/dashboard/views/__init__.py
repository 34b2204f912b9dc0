"""The dashboard's own read views: what no call of the API answers, read from the areas' tables. Nothing here writes."""
