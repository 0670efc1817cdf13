// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kept_weights.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gpu/memory_plan.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeaderBytes = 4096;
constexpr const char* kEnding = ".packed";
// Written and brought to the disk at a time: the end of the server waits for one of them at most.
constexpr std::size_t kBytesAtOnce = std::size_t{32} << 20;
constexpr int kLowestPriority = 19;

struct Header {
  std::array<char, 16> magic = {'t', 'r', 'o', 'u', 'p', 'e', ' ', 'w',
                                'e', 'i', 'g', 'h', 't', 's', ' ', '1'};
  std::array<std::uint64_t, 4> key{};
  std::uint64_t size_bytes = 0;  // of the file

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) <= kHeaderBytes);

class Key {
 public:
  Key() { XXH3_128bits_reset(&state_); }

  void add(const void* bytes, std::uint64_t size) {
    XXH3_128bits_update(&state_, &size, sizeof size);
    XXH3_128bits_update(&state_, bytes, size);
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(std::uint64_t number) { XXH3_128bits_update(&state_, &number, sizeof number); }

  std::array<std::uint64_t, 2> value() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t state_;
};

void add_weight(Key& key, const WeightSpec& spec) {
  key.add(spec.name);
  for (const auto& source : spec.sources) key.add(source);
  key.add(spec.other_prefix);
  key.add(&spec.added, sizeof spec.added);
  for (const std::uint64_t number :
       {std::uint64_t{spec.sources.size()}, std::uint64_t{spec.rows}, std::uint64_t{spec.columns},
        static_cast<std::uint64_t>(spec.kind), static_cast<std::uint64_t>(spec.order),
        std::uint64_t{spec.head_dim}, std::uint64_t{spec.is_matrix ? 1U : 0U},
        std::uint64_t{spec.is_table ? 1U : 0U}, std::uint64_t{spec.alternates ? 1U : 0U}})
    key.add(number);
}

std::array<std::uint64_t, 2> key_of_program() {
  Key key;
  const MappedFile program("/proc/self/exe");
  key.add(program.bytes().data(), program.bytes().size());
  return key.value();
}

std::array<std::uint64_t, 2> key_of_model(const WeightStore& store, const Network& network,
                                          const CpuWeightSettings& settings) {
  Key key;
  key.add(static_cast<std::uint64_t>(settings.compute_type));
  key.add(static_cast<std::uint64_t>(settings.quantization));
  for (const auto& file : store.files()) key.add(file_identity(file.path));
  for (const auto& spec : network.weights()) add_weight(key, spec);
  return key.value();
}

std::string in_digits(const std::array<std::uint64_t, 2>& key) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t part : key)
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[part >> shift & 15U];
  return text;
}

std::uint64_t aligned(std::uint64_t size) {
  return (size + CpuWeights::kSegmentAlignment - 1) / CpuWeights::kSegmentAlignment *
         CpuWeights::kSegmentAlignment;
}

std::uint64_t file_bytes(const CpuWeights& weights) {
  std::uint64_t sum = kHeaderBytes;
  for (const auto& segment : weights.segments()) sum += aligned(segment.size());
  return sum;
}

// Brings the bytes to memory and maps them, so that a page that can't be read is an error here and
// no fault later. False: one can't.
bool populate(std::span<const std::byte> bytes) {
  if (::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_POPULATE_READ) == 0) return true;
  return errno == EINVAL;  // before Linux 5.14
}

// Weights that others could put there would be run as if they were the model's. Empty: nobody else can.
std::string distrust_of(const fs::path& directory) {
  struct stat about {};
  if (::lstat(directory.c_str(), &about) != 0) return std::strerror(errno);
  if (!S_ISDIR(about.st_mode)) return "expected a directory";
  if (about.st_uid != ::geteuid()) return "the directory is another user's";
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write into the directory";
  return "";
}

// A file without a name in a directory.
class NamelessFile {
 public:
  explicit NamelessFile(const fs::path& directory)
      : descriptor_(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)) {}
  ~NamelessFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  bool reserve(std::uint64_t size) { return ::fallocate(descriptor_, 0, 0, static_cast<off_t>(size)) == 0; }
  bool write(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
    return true;
  }
  bool bring_to_disk() { return ::fdatasync(descriptor_) == 0; }
  // True as well if another process was faster.
  bool give_name(const fs::path& path) {
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0 ||
           errno == EEXIST;
  }

 private:
  int descriptor_;
};

}  // namespace

KeptWeights::KeptWeights(WeightsDirectory directory, const WeightStore& store, const Network& network,
                         CpuWeightSettings settings)
    : directory_(std::move(directory)) {
  if (settings.with_onednn) directory_.max_bytes = 0;
  if (!is_wanted()) return;
  const auto of_model = key_of_model(store, network, settings), of_program = key_of_program();
  key_ = {of_model[0], of_model[1], of_program[0], of_program[1]};
  model_ = in_digits(of_model) + "-";
  path_ = fs::path(directory_.path) / (model_ + in_digits(of_program) + kEnding);
}

std::optional<KeptWeights::Mapped> KeptWeights::map(ThreadPool& threads) const {
  std::error_code failure;
  if (!is_wanted() || !fs::exists(path_, failure)) return std::nullopt;
  if (const auto reason = distrust_of(directory_.path); !reason.empty()) {
    log(LogLevel::kWarning, "kept weights are not used",
        {{"directory", directory_.path}, {"reason", reason}});
    return std::nullopt;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto refuse = [&](const std::string& reason) {
    log(LogLevel::kWarning, "kept weights can't be used, those of the model are packed",
        {{"file", path_.string()}, {"reason", reason}});
    fs::remove(path_, failure);
    return std::nullopt;
  };
  try {
    auto file = std::make_shared<const MappedFile>(path_);
    const auto bytes = file->bytes();
    Header header;
    if (bytes.size() < kHeaderBytes) return refuse("is shorter than its header");
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header != Header{.key = key_, .size_bytes = bytes.size()}) return refuse("has another header");
    std::atomic<bool> is_whole = true;
    threads.run((bytes.size() + kBytesAtOnce - 1) / kBytesAtOnce, [&](std::size_t task) {
      const std::size_t first = task * kBytesAtOnce;
      if (!populate(bytes.subspan(first, std::min(kBytesAtOnce, bytes.size() - first)))) is_whole = false;
    });
    if (!is_whole) return refuse("can't be read");
    fs::last_write_time(path_, fs::file_time_type::clock::now(), failure);  // it was used
    log(LogLevel::kInfo, "weights are mapped as they were packed before",
        {{"size", shown_bytes(bytes.size())},
         {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}});
    return Mapped{.file = file, .weights = bytes.subspan(kHeaderBytes)};
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

std::string KeptWeights::make_room(std::uint64_t size) const {
  if (size > directory_.max_bytes)
    return "they need " + shown_bytes(size) + ", allowed are " + shown_bytes(directory_.max_bytes);
  struct Used {
    fs::file_time_type time;
    fs::path path;
    std::uint64_t size = 0;
  };
  std::vector<Used> files;
  std::uint64_t sum = size;
  for (const auto& entry : fs::directory_iterator(directory_.path)) {
    if (!entry.is_regular_file() || entry.is_symlink() || entry.path().extension() != kEnding) continue;
    if (entry.path().filename().string().starts_with(model_)) {
      fs::remove(entry.path());  // packed by another build, which is not started any more
      continue;
    }
    files.push_back({entry.last_write_time(), entry.path(), entry.file_size()});
    sum += files.back().size;
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  for (const auto& file : files) {
    if (sum <= directory_.max_bytes) break;
    fs::remove(file.path);
    sum -= file.size;
  }
  const std::uint64_t available = fs::space(directory_.path).available;
  if (size <= available / 2) return "";
  return "they need " + shown_bytes(size) + ", the disk has " + shown_bytes(available) + " free";
}

std::string KeptWeights::write(const CpuWeights& weights, const std::stop_token& stop) const {
  const auto reason = [] { return std::string(std::strerror(errno)); };
  const std::uint64_t size = file_bytes(weights);
  if (::mkdir(directory_.path.c_str(), 0700) != 0 && errno != EEXIST) return reason();
  if (auto problem = distrust_of(directory_.path); !problem.empty()) return problem;
  if (auto problem = make_room(size); !problem.empty()) return problem;
  NamelessFile file(directory_.path);
  if (!file.is_open() || !file.reserve(size)) return reason();
  std::array<std::byte, kHeaderBytes> first{};
  const Header header{.key = key_, .size_bytes = size};
  std::memcpy(first.data(), &header, sizeof header);
  if (!file.write(first, 0)) return reason();
  std::uint64_t offset = kHeaderBytes, unsafe = 0;
  for (const auto& segment : weights.segments()) {
    for (std::size_t begin = 0; begin < segment.size(); begin += kBytesAtOnce) {
      if (stop.stop_requested()) return "the server ends";
      const auto bytes = segment.subspan(begin, std::min(kBytesAtOnce, segment.size() - begin));
      if (!file.write(bytes, offset + begin)) return reason();
      unsafe += bytes.size();
      if (unsafe < kBytesAtOnce) continue;
      if (!file.bring_to_disk()) return reason();
      unsafe = 0;
    }
    offset += aligned(segment.size());
  }
  if (!file.bring_to_disk() || !file.give_name(path_)) return reason();
  return "";
}

WeightsWriter::WeightsWriter(KeptWeights kept, std::shared_ptr<const CpuWeights> weights)
    : thread_([this, kept = std::move(kept), weights = std::move(weights)](const std::stop_token& stop) {
        (void)::setpriority(PRIO_PROCESS, 0, kLowestPriority);  // of this thread
        std::string problem;
        try {
          problem = kept.write(*weights, stop);
        } catch (const std::exception& error) {
          problem = error.what();
        }
        if (problem.empty()) {
          log(LogLevel::kInfo, "packed weights are kept for the next start");
        } else if (!stop.stop_requested()) {
          log(LogLevel::kInfo, "packed weights are not kept, the next start packs again",
              {{"reason", problem}});
        }
        is_done_ = true;
        is_done_.notify_all();
      }) {}

}  // namespace troupe
