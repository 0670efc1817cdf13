// SPDX-License-Identifier: Apache-2.0
// Layout of a KV pool whose layers begin at huge pages. The system gives such a page
// whole: one that two layers share is resident as soon as either has a KV page in it,
// in each worker's pool anew.
#pragma once

#include <cstddef>
#include <numeric>

#include "gpu/pages/kv_layout.hpp"
#include "gpu/pages/page_memory.hpp"

namespace troupe {

// With so many pages that each layer fills whole huge pages. Pages behind those asked for are
// address space, and are never written to; the rest of a layer's last huge page becomes resident with the
// last pages asked for, which plan_cpu_model() counts. A pool smaller than a huge page a layer stays as it
// is.
inline KvLayout in_whole_huge_pages(KvLayout layout) {
  const std::size_t step = kHugePageBytes / std::gcd(kHugePageBytes, kv_page_bytes(layout));
  if (layout.num_pages >= step) layout.num_pages = (layout.num_pages + step - 1) / step * step;
  return layout;
}

}  // namespace troupe
