// SPDX-License-Identifier: Apache-2.0
#include "app/loading/disk_cache.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "actors/disk_thread.hpp"
#include "app/loading/model_fingerprint.hpp"
#include "gpu/memory_plan.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "store/page_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// Beyond this the index alone would take a gigabyte.
constexpr std::uint64_t kMostDiskPages = 1 << 22;

}  // namespace

std::uint32_t num_disk_pages(const Options& options, const LoadedModel& model) {
  if (!options.serving.keeps_prefixes() || !model.host_pages) return 0;
  return static_cast<std::uint32_t>(
      std::min(options.cache_disk_space / model.host_pages->page_bytes(), kMostDiskPages));
}

bool wants_disk_cache(const Options& options, const StateDirectory* directory) {
  return options.serving.keeps_prefixes() && options.cache_disk_space > 0 && directory != nullptr;
}

std::shared_ptr<DiskTier> open_disk_cache(const Options& options, const LoadedModel& model,
                                          const StateDirectory* directory) {
  if (!wants_disk_cache(options, directory)) return nullptr;
  if (!model.host_pages) {
    log(LogLevel::kWarning, "no disk tier: KV on its way to the disk needs memory on the host",
        {{"host_memory", options.cache_host_memory}});
    return nullptr;
  }
  const std::uint64_t page_bytes = model.host_pages->page_bytes();
  const std::uint32_t num_pages = num_disk_pages(options, model);
  if (num_pages == 0) return nullptr;
  try {
    const PageFileContents contents{
        .fingerprint =
            model_fingerprint(options.models.front().dir, model.computation, directory->descriptor()),
        .page_size = kKvPageTokens,
        .page_bytes = page_bytes};
    auto file = std::make_unique<PageFile>(directory->descriptor(), contents, num_pages);
    log(LogLevel::kInfo, "disk tier",
        {{"kv_pages", num_pages},
         {"at_most", shown_bytes(num_pages * page_bytes)},
         {"directory", directory->path().string()}});
    return std::make_shared<DiskThread>(std::move(file), model.host_pages, num_pages);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "no disk tier", {{"reason", error.what()}});
    return nullptr;
  }
}

}  // namespace troupe
