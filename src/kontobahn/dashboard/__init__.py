"""The dashboard: what a person does in a browser. Above the areas: it calls what the API's calls call, and no area knows it."""
