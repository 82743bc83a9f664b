"""The RabbitMQ bridge: submissions come in, what the platform is told goes out, and both survive everybody's death.

A submission is acknowledged once the ledger has it; no training time passes inside a delivery. What the platform is told
stands in the ledger's outbox first, and is published from there in its order, with the broker's confirmation.
"""

from services.bridge.bridge import Bridge, BridgeState, replay, run_bridge
from services.bridge.topology import LEGACY_QUEUE, Topology

__all__ = ["LEGACY_QUEUE", "Bridge", "BridgeState", "Topology", "replay", "run_bridge"]
