// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_place.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

const DevicePage* PagePlace::on(WorkerIndex worker) const {
  const auto found =
      std::lower_bound(on_devices.begin(), on_devices.end(), worker,
                       [](const DevicePage& page, WorkerIndex wanted) { return page.worker < wanted; });
  return found != on_devices.end() && found->worker == worker ? &*found : nullptr;
}

DevicePage* PagePlace::on(WorkerIndex worker) {
  return const_cast<DevicePage*>(std::as_const(*this).on(worker));
}

void PagePlace::add(const DevicePage& page) {
  const auto after = std::find_if(on_devices.begin(), on_devices.end(),
                                  [&](const DevicePage& each) { return each.worker > page.worker; });
  on_devices.insert(after, page);
}

bool PagePlace::is_held() const {
  return std::any_of(on_devices.begin(), on_devices.end(),
                     [](const DevicePage& page) { return page.num_holders > 0; });
}

}  // namespace troupe
