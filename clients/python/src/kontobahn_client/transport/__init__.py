"""From a request to its answer: what is sent and tried again, over a connection that is called or awaited."""
