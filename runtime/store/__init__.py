"""Where bytes live: four logical buckets over local folders or S3, every read verified, every write published once."""
