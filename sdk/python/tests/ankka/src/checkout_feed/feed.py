"""Makes a checkout of each notice that a shop publishes, and skips what is no notice."""

import logging
from collections.abc import Iterable
from datetime import datetime, timezone

from ankka_flow import Batch, Emit, JsonInlet, JsonOutlet, Streamlet, json

log = logging.getLogger(__name__)


class CheckoutFeed(Streamlet):
    name = "checkout-feed"
    description = "Turns checkout notices into a feed of checkouts."
    notices = JsonInlet("in", schema_name="ankka.checkout-notice.v1")
    checkouts = JsonOutlet("checkouts", schema_name="checkouts.v1")

    def process(self, batch: Batch) -> Iterable[Emit]:
        for record in batch:
            try:
                notice = json.loads(record.value)
                cart, at = str(notice["cartId"]), int(notice["at"])
            except (ValueError, KeyError, TypeError):
                log.warning("offset %d is no checkout notice, skipped", record.offset)
                continue
            when = datetime.fromtimestamp(at / 1000, timezone.utc)
            checkout = {"cartId": cart, "checkedOutAt": when.isoformat(timespec="milliseconds")}
            yield self.checkouts.emit(record, value=json.dumps(checkout))
