// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kept_weights.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gpu/cpu/loading_progress.hpp"
#include "gpu/memory_plan.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

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
  key.add(store.identity());
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

std::string error_text() { return std::strerror(errno); }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

int open_directory(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Weights that others could put there would be run as if they were the model's. Empty: nobody else can.
std::string distrust_of(int descriptor, const std::string& noun) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return error_text();
  if (about.st_uid != ::geteuid()) return "the " + noun + " is another user's";
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write into the " + noun;
  return "";
}

// A file without a name in a directory.
class NamelessFile {
 public:
  explicit NamelessFile(int directory)
      : directory_(directory),
        descriptor_(::openat(directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)) {}

  bool is_open() const { return descriptor_.is_open(); }
  // True as well where the file system has no way to.
  bool reserve(std::uint64_t size) {
    return ::fallocate(descriptor_.get(), 0, 0, static_cast<off_t>(size)) == 0 || errno == EOPNOTSUPP;
  }
  bool write(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
      const ssize_t count =
          ::pwrite(descriptor_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
    return true;
  }
  bool bring_to_disk() { return ::fdatasync(descriptor_.get()) == 0; }
  // True as well if another process was faster.
  bool give_name(const std::string& name) {
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_.get());
    return ::linkat(AT_FDCWD, self.c_str(), directory_, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ||
           errno == EEXIST;
  }

 private:
  int directory_;
  Descriptor descriptor_;
};

struct UsedFile {
  std::string name;
  std::int64_t used = 0;  // nanoseconds
  std::uint64_t size = 0;
};

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// Ours of a directory, the longest unused first. Throws std::system_error.
std::vector<UsedFile> kept_files(int directory) {
  Descriptor again(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, CloseDirectory> entries(again.is_open() ? ::fdopendir(again.get()) : nullptr);
  if (!entries) throw std::system_error(errno, std::generic_category());
  again.release();
  std::vector<UsedFile> files;
  while (const dirent* entry = ::readdir(entries.get())) {
    struct stat about {};
    if (!std::string_view(entry->d_name).ends_with(kEnding)) continue;
    if (::fstatat(directory, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(about.st_mode)) continue;
    files.push_back({.name = entry->d_name,
                     .used = std::int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec,
                     .size = static_cast<std::uint64_t>(about.st_size)});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  return files;
}

}  // namespace

KeptWeights::KeptWeights(WeightsDirectory directory, const WeightStore& store, const Network& network,
                         CpuWeightSettings settings)
    : directory_(std::move(directory)) {
  if (settings.with_onednn) directory_.max_bytes = 0;
  if (!is_wanted()) return;
  try {
    const auto of_model = key_of_model(store, network, settings), of_program = key_of_program();
    key_ = {of_model[0], of_model[1], of_program[0], of_program[1]};
    model_ = in_digits(of_model) + "-";
    name_ = model_ + in_digits(of_program) + kEnding;
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "packed weights are not kept, the next start packs again",
        {{"reason", error.what()}});
    directory_.max_bytes = 0;
  }
}

std::optional<KeptWeights::Mapped> KeptWeights::map(ThreadPool& threads) const {
  if (!is_wanted()) return std::nullopt;
  const Descriptor directory(open_directory(directory_.path));
  Descriptor opened(directory.is_open() ? ::openat(directory.get(), name_.c_str(),
                                                   O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                                        : -1);
  if (!opened.is_open() && errno == ENOENT) return std::nullopt;
  std::string distrust = opened.is_open() ? distrust_of(directory.get(), "directory") : error_text();
  if (distrust.empty()) distrust = distrust_of(opened.get(), "file");
  if (!distrust.empty()) {
    log(LogLevel::kWarning, "kept weights are not used", {{"file", path().string()}, {"reason", distrust}});
    return std::nullopt;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto refuse = [&](const std::string& reason) {
    discard(reason);
    return std::nullopt;
  };
  try {
    auto file = std::make_shared<const MappedFile>(opened.release(), path());
    const auto bytes = file->bytes();
    Header header;
    if (bytes.size() < kHeaderBytes) return refuse("is shorter than its header");
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header != Header{.key = key_, .size_bytes = bytes.size()}) return refuse("has another header");
    std::atomic<bool> is_whole = true;
    LoadingProgress progress(bytes.size(), begin);
    threads.run((bytes.size() + kBytesAtOnce - 1) / kBytesAtOnce, [&](std::size_t task) {
      const std::size_t first = task * kBytesAtOnce, size = std::min(kBytesAtOnce, bytes.size() - first);
      if (!populate(bytes.subspan(first, size))) is_whole = false;
      if (const auto percent = progress.add(size, std::chrono::steady_clock::now()))
        log(LogLevel::kInfo, "weights are being read", {{"percent", *percent}});
    });
    if (!is_whole) return refuse("can't be read");
    // It was used. Where that can't be noted, it goes earlier.
    (void)::utimensat(directory.get(), name_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    log(LogLevel::kInfo, "weights are mapped as they were packed before",
        {{"size", shown_bytes(bytes.size())},
         {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}});
    return Mapped{.file = file, .weights = bytes.subspan(kHeaderBytes)};
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

void KeptWeights::discard(const std::string& reason) const {
  log(LogLevel::kWarning, "kept weights can't be used, those of the model are packed",
      {{"file", path().string()}, {"reason", reason}});
  const Descriptor directory(open_directory(directory_.path));
  if (directory.is_open()) ::unlinkat(directory.get(), name_.c_str(), 0);
}

std::string KeptWeights::make_room(int directory, std::uint64_t size) const {
  if (size > directory_.max_bytes)
    return "they need " + shown_bytes(size) + ", allowed are " + shown_bytes(directory_.max_bytes);
  const std::vector<UsedFile> files = kept_files(directory);
  std::uint64_t sum = size;
  for (const auto& file : files) sum += file.size;
  std::vector<std::string> leaving;
  std::uint64_t freed = 0;
  const auto leave = [&](const UsedFile& file) {
    leaving.push_back(file.name);
    freed += file.size;
  };
  // Packed by another build, which is not started any more.
  for (const auto& file : files)
    if (file.name.starts_with(model_)) leave(file);
  for (const auto& file : files)
    if (sum - freed > directory_.max_bytes && !file.name.starts_with(model_)) leave(file);
  struct statvfs disk {};
  if (::fstatvfs(directory, &disk) != 0) return error_text();
  const std::uint64_t available = std::uint64_t{disk.f_bavail} * disk.f_frsize + freed;
  if (size > available / 2)
    return "they need " + shown_bytes(size) + ", the disk has " + shown_bytes(available) + " free";
  for (const auto& name : leaving) ::unlinkat(directory, name.c_str(), 0);
  return "";
}

std::string KeptWeights::write(const CpuWeights& weights, const std::stop_token& stop) const {
  const std::uint64_t size = file_bytes(weights);
  if (::mkdir(directory_.path.c_str(), 0700) != 0 && errno != EEXIST) return error_text();
  const Descriptor directory(open_directory(directory_.path));
  if (!directory.is_open()) return error_text();
  if (auto problem = distrust_of(directory.get(), "directory"); !problem.empty()) return problem;
  NamelessFile file(directory.get());
  if (!file.is_open()) return error_text();
  if (auto problem = make_room(directory.get(), size); !problem.empty()) return problem;
  if (!file.reserve(size)) return error_text();
  std::array<std::byte, kHeaderBytes> first{};
  const Header header{.key = key_, .size_bytes = size};
  std::memcpy(first.data(), &header, sizeof header);
  if (!file.write(first, 0)) return error_text();
  std::uint64_t offset = kHeaderBytes, unsafe = 0;
  for (const auto& segment : weights.segments()) {
    for (std::size_t begin = 0; begin < segment.size(); begin += kBytesAtOnce) {
      if (stop.stop_requested()) return "the server ends";
      const auto bytes = segment.subspan(begin, std::min(kBytesAtOnce, segment.size() - begin));
      if (!file.write(bytes, offset + begin)) return error_text();
      unsafe += bytes.size();
      if (unsafe < kBytesAtOnce) continue;
      if (!file.bring_to_disk()) return error_text();
      unsafe = 0;
    }
    offset += aligned(segment.size());
  }
  if (!file.bring_to_disk() || !file.give_name(name_)) return error_text();
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
