"""The variables that the shipped deployment asks for; nothing listens at these addresses."""

from __future__ import annotations

__all__ = ["ENV"]

ENV = {
    "LYREBIRD_KAFKA": "127.0.0.1:1",
    "LYREBIRD_KAFKA_USER": "lyrebird",
    "LYREBIRD_KAFKA_PASSWORD": "secret",
    "LYREBIRD_REGISTRY": "http://127.0.0.1:2",
    "LYREBIRD_REGISTRY_USER": "lyrebird",
    "LYREBIRD_REGISTRY_PASSWORD": "secret",
    "LYREBIRD_ELASTICSEARCH": "http://127.0.0.1:3",
    "LYREBIRD_ELASTICSEARCH_USER": "lyrebird",
    "LYREBIRD_ELASTICSEARCH_PASSWORD": "secret",
    "LYREBIRD_S3": "http://127.0.0.1:4",
    "LYREBIRD_S3_ACCESS_KEY": "key",
    "LYREBIRD_S3_SECRET_KEY": "secret",
    "LYREBIRD_MYSQL_HOST": "127.0.0.1",
    "LYREBIRD_MYSQL_PORT": "5",
    "LYREBIRD_MYSQL_USER": "capture",
    "LYREBIRD_MYSQL_PASSWORD": "secret",
}
