"""Makes of each checkout notice a cart, a checkout and the edge between them, for a sink that merges a graph."""

import logging
from collections.abc import Iterable
from datetime import datetime, timezone

from ankka_flow import Batch, Emit, GraphDeltaOutlet, JsonInlet, Streamlet, json

log = logging.getLogger(__name__)


class CheckoutGraph(Streamlet):
    name = "checkout-graph"
    description = "Maps checkout notices to graph deltas."
    notices = JsonInlet("in", schema_name="ankka.checkout-notice.v1")
    deltas = GraphDeltaOutlet("deltas")

    def process(self, batch: Batch) -> Iterable[Emit]:
        for record in batch:
            try:
                notice = json.loads(record.value)
                cart, at = str(notice["cartId"]), int(notice["at"])
            except (ValueError, KeyError, TypeError):
                log.warning("offset %d is no checkout notice, skipped", record.offset)
                continue
            when = datetime.fromtimestamp(at / 1000, timezone.utc).isoformat(timespec="milliseconds")
            cart_id, checkout_id = f"cart:{cart}", f"checkout:{cart}:{at}"
            yield self.deltas.node(record, id=cart_id, version=at, labels=["Cart"], properties={"cartId": cart})
            yield self.deltas.node(
                record,
                id=checkout_id,
                version=at,
                labels=["Checkout"],
                properties={"cartId": cart, "checkedOutAt": when},
            )
            yield self.deltas.edge(
                record,
                id=f"checked-out:{cart}:{at}",
                version=at,
                type="CHECKED_OUT",
                from_id=cart_id,
                to_id=checkout_id,
            )
