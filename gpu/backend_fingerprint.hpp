// SPDX-License-Identifier: Apache-2.0
// Tells builds apart whose plain structs differ: a worker process, or a library
// that is loaded, must have been built from the same headers as the server. The
// library exports a function of this number beside its MakeBackend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "gpu/backend.hpp"
#include "gpu/pages/host_pages.hpp"

namespace troupe {

// Exported by a CUDA library under the name kBackendFingerprintSymbol.
using BackendFingerprint = std::uint64_t (*)();
inline constexpr const char* kBackendFingerprintSymbol = "troupe_backend_fingerprint";

// FNV-1a over sizes and the compiler.
constexpr std::uint64_t backend_fingerprint() {
  std::uint64_t hash = 14695981039346656037ULL;
  const auto add = [&hash](std::uint64_t number) { hash = (hash ^ number) * 1099511628211ULL; };
  for (const char c : std::string_view(__VERSION__)) add(static_cast<unsigned char>(c));
  for (const std::size_t size :
       {sizeof(BackendSettings), sizeof(BackendPlan), sizeof(MemoryPlan), sizeof(DeviceDescription),
        sizeof(CellType), sizeof(Batch), sizeof(SequenceSlice), sizeof(SamplingParameters), sizeof(PageCopy),
        sizeof(BatchResult), sizeof(Backend), sizeof(Device), sizeof(HostPages)})
    add(size);
  return hash;
}

inline constexpr std::uint64_t kBackendFingerprint = backend_fingerprint();

}  // namespace troupe
