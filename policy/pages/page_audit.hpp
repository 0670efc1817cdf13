// SPDX-License-Identifier: Apache-2.0
// Every invariant of the map of pages that is of more than one of its parts, looked at the slow way: for
// tests and debug builds.
#pragma once

#include "policy/pages/lease_book.hpp"
#include "policy/pages/page_places.hpp"

namespace troupe {

class PageAudit {
 public:
  PageAudit(const PagePlaces& places, const LeaseBook& leases)
      : places_(places), tiers_(places.tiers()), leases_(leases) {}

  bool finds_all_right() const;

 private:
  bool is_place_consistent(NodeId node) const;
  bool is_in_right_queues(NodeId node) const;
  bool have_queues_nothing_else() const;
  bool are_counted_right() const;
  bool have_device_pages_one_owner() const;
  bool have_other_pages_one_owner() const;
  bool are_quotas_counted_right() const;

  const PagePlaces& places_;
  const TierBooks& tiers_;
  const LeaseBook& leases_;
};

}  // namespace troupe
