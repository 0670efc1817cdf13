// SPDX-License-Identifier: Apache-2.0
// Packed weights in a file, which later starts of the same program with the same model map
// instead of packing again: then loading touches no new memory and reads the file once.
//
//   header   4096 bytes: magic, key, size
//   weights  the segments of CpuWeights (cpu_weights.hpp), each from a multiple of 64 bytes on
//
// A file is written under no name and gets one when it is whole and on the disk.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "gpu/cpu/cpu_weights.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/model/mapped_file.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

// Where packed weights are kept. The directory's files with the ending ".packed" are ours.
struct WeightsDirectory {
  std::string path;             // made if the one above it is there; empty: nothing is kept
  std::uint64_t max_bytes = 0;  // of all files; those that were not used for longest go first
};

class KeptWeights {
 public:
  // Names the file by all that its bytes depend on: this program, the settings, the network's weights, and
  // WeightStore::identity(). Nothing is kept of weights that have copies for oneDNN, or where the program
  // can't be read, which the log tells.
  KeptWeights(WeightsDirectory directory, const WeightStore& store, const Network& network,
              CpuWeightSettings settings);

  // The weights behind the header, all in memory and mapped by the pool's threads; nullopt: there is no
  // such file, or it can't be read, or others may write into it or its directory, which the log tells.
  struct Mapped {
    std::shared_ptr<const MappedFile> file;
    std::span<const std::byte> weights;
  };
  std::optional<Mapped> map(ThreadPool& threads) const;

  // Removes the file, whose weights were found to be none of this model, and logs why.
  void discard(const std::string& reason) const;

  // Writes the file and makes room for it: at most max_bytes and half of what the disk has free; what
  // other builds kept of this model goes. Looks now and then whether to stop, and then leaves nothing.
  // Empty: it is there; else why not.
  std::string write(const CpuWeights& weights, const std::stop_token& stop) const;

  bool is_wanted() const { return !directory_.path.empty() && directory_.max_bytes > 0; }

 private:
  std::filesystem::path path() const { return std::filesystem::path(directory_.path) / name_; }
  std::string make_room(int directory, std::uint64_t size) const;

  WeightsDirectory directory_;
  std::array<std::uint64_t, 4> key_{};  // of the model, of the program
  std::string model_;                   // begins the names of this model's files
  std::string name_;
};

// Writes packed weights while they are used, on a thread of low priority that ends with this object.
class WeightsWriter {
 public:
  WeightsWriter(KeptWeights kept, std::shared_ptr<const CpuWeights> weights);

  // Until it has written, or can't.
  void wait() const { is_done_.wait(false); }

 private:
  std::atomic<bool> is_done_ = false;
  std::jthread thread_;
};

}  // namespace troupe
