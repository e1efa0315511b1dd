"""Scripts that run in the environments of peers; `bench.environment` starts them."""
