"""The demo: organisations with data to try everything on. Created once in a data directory; DATA/demo.json lists its keys and ids."""
