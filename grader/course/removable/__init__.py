"""Keys of policy.toml for one platform per file: `RULES`; without the file, they are gone."""
