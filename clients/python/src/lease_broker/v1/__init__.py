"""The messages of the API `leasebroker.v1`, generated from `lease_broker.proto`.

They are public, so that no program needs to generate them a second time: two modules for the same proto file cannot be
imported together.
"""

from lease_broker.v1.lease_broker_pb2 import *  # noqa: F403
