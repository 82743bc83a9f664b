"""Where objects lie: the operator's choice, in the Prefect UI."""

from __future__ import annotations

from typing import ClassVar

from prefect.blocks.core import Block
from pydantic import Field, SecretStr


class ObjectStore(Block):
    """The object store of all workers. Each field has the name of its setting; an empty one leaves each machine's own value.

    Attributes:
        store: `local`, `s3`, or `s3://PREFIX` for buckets named `PREFIX-default` and so on.
        s3_endpoint: the S3 server's URL.
        s3_access_key: who we are to it.
        s3_secret_key: and the proof; kept encrypted by the server, given to whoever may read its API.
        s3_region: the region that requests are signed for.
        s3_default_bucket: the real bucket of the logical bucket `default`; likewise the others.
        s3_datasets_bucket: of `datasets`.
        s3_models_bucket: of `models`.
        s3_annotations_bucket: of `annotations`.
    """

    _block_type_name: ClassVar[str] = "MTR Object Store"
    _block_type_slug: ClassVar[str] = "mtr-object-store"
    _description: ClassVar[str] = "Where the model training runtime keeps packages, data sets and models."

    store: str | None = Field(default=None, description="local, s3, or s3://PREFIX.")
    s3_endpoint: str | None = Field(default=None, description="The S3 server's URL.")
    s3_access_key: SecretStr | None = Field(default=None, description="The access key.")
    s3_secret_key: SecretStr | None = Field(default=None, description="The secret key.")
    s3_region: str | None = Field(default=None, description="The region that requests are signed for.")
    s3_default_bucket: str | None = Field(default=None, description="The real bucket of `default`.")
    s3_datasets_bucket: str | None = Field(default=None, description="The real bucket of `datasets`.")
    s3_models_bucket: str | None = Field(default=None, description="The real bucket of `models`.")
    s3_annotations_bucket: str | None = Field(default=None, description="The real bucket of `annotations`.")
