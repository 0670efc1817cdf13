// SPDX-License-Identifier: Apache-2.0
#include "app/loading/device_defaults.hpp"

#include <doctest/doctest.h>

using namespace troupe;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::uint64_t of_gpu(std::uint64_t kv_bytes, std::uint64_t available_bytes, double share = 1) {
  return host_tier_bytes({.kind = DeviceKind::kGpu,
                          .device_kv_bytes = kv_bytes,
                          .available_bytes = available_bytes,
                          .share = share});
}

}  // namespace

TEST_CASE("device defaults: a GPU runs more sequences at once than CPU cores") {
  CHECK(default_sequences(DeviceKind::kCpu) == 64);
  CHECK(default_sequences(DeviceKind::kGpu) == 256);
}

TEST_CASE("device defaults: the host tier of GPUs is twice their KV, as far as a quarter of the host goes") {
  CHECK(of_gpu(20 * kGiB, 400 * kGiB) == 40 * kGiB);
  CHECK(of_gpu(60 * kGiB, 128 * kGiB) == 32 * kGiB);
  CHECK(of_gpu(8 * 60 * kGiB, 2048 * kGiB) == 512 * kGiB);  // eight GPUs share the host's
  CHECK(of_gpu(60 * kGiB, 0) == 0);
  CHECK(of_gpu(0, 128 * kGiB) == 0);
}

TEST_CASE("device defaults: the host tier of CPU cores is 1 GiB") {
  CHECK(host_tier_bytes({.device_kv_bytes = 10 * kGiB, .available_bytes = 100 * kGiB}) == kGiB);
  CHECK(host_tier_bytes({.device_kv_bytes = 1, .available_bytes = 1, .share = 0.5}) == kGiB / 2);
}

TEST_CASE("device defaults: models share a host tier") {
  CHECK(of_gpu(60 * kGiB, 128 * kGiB, 0.25) == 8 * kGiB);
  CHECK(of_gpu(1 * kGiB, 128 * kGiB, 0.25) == 2 * kGiB);
  CHECK(of_gpu(60 * kGiB, 128 * kGiB, 0.25) + of_gpu(60 * kGiB, 128 * kGiB, 0.75) ==
        of_gpu(60 * kGiB, 128 * kGiB));
}
