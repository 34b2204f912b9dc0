"""Reports of providers: completed, applied, delivered by webhooks, asked for by refreshing."""
