// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_demand.hpp"

#include <doctest/doctest.h>

using namespace troupe;

namespace {

constexpr PageSizing kSizing{.page_size = 4, .look_ahead_pages = 1};

}  // namespace

TEST_CASE("page demand: a newcomer asks for its prompt, wants a page ahead and leaves one a head") {
  const SequenceProgress progress(8, 100);
  const auto demand = admission_demand(progress, kSizing, 3);
  CHECK(demand.required == 2);  // the KV of 8 tokens; the ninth is only drawn
  CHECK(demand.wanted == 3);
  CHECK(demand.keep_free == 3);
}

TEST_CASE("page demand: no sequence asks for more than its last token needs") {
  const SequenceProgress progress(8, 9);
  CHECK(admission_demand(progress, kSizing, 0).wanted == 2);
}

TEST_CASE("page demand: a sequence with its pages ahead asks for none") {
  SequenceProgress progress(8, 100);
  progress.start(0);
  CHECK(extension_demand(progress, kSizing, 3).wanted == 0);
}

TEST_CASE("page demand: the page ahead is wanted, the page at hand required") {
  SequenceProgress progress(8, 100);
  progress.start(0);
  CHECK(extension_demand(progress, kSizing, 2).required == 0);
  CHECK(extension_demand(progress, kSizing, 2).wanted == 1);
  CHECK(extension_demand(progress, kSizing, 1).required == 1);
  CHECK(extension_demand(progress, kSizing, 1).wanted == 2);
}

TEST_CASE("page demand: a grant is all that is wanted, or what there is, or nothing") {
  const PageDemand demand{.required = 2, .wanted = 4, .keep_free = 3};
  CHECK(pages_to_grant(demand, 4) == std::nullopt);
  CHECK(pages_to_grant(demand, 5) == 2U);
  CHECK(pages_to_grant(demand, 6) == 3U);
  CHECK(pages_to_grant(demand, 20) == 4U);
}
