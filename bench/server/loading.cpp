// SPDX-License-Identifier: Apache-2.0
// From exec to the first token over the time to read the model's files once, and the peak of
// memory over the weights: with packed weights kept by an earlier start, and without. In turn,
// with the files in the page cache ("warm") and not ("cold": the cache is asked to drop them).
// Usage: bench_loading [MODEL_DIR|FILE.gguf] [rounds]; without a model it writes a Llama of
// 1.1 B parameters, 2.2 GB, to the temporary directory. Goals: 1.2 and 1.15.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/loading/model_source.hpp"
#include "bench/models.hpp"
#include "bench/statistics.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;

class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void drop_from_cache() const { (void)::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED); }
  void read_all() const {
    std::vector<char> bytes(kReadAtOnce);
    while (::read(descriptor_, bytes.data(), bytes.size()) > 0) {
    }
  }

 private:
  int descriptor_;
};

void drop_from_cache(const std::vector<fs::path>& files) {
  for (const auto& file : files) OpenFile(file).drop_from_cache();
}

double seconds_to_read(const std::vector<fs::path>& files) {
  const auto start = std::chrono::steady_clock::now();
  for (const auto& file : files) OpenFile(file).read_all();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<fs::path> files_under(const fs::path& directory) {
  std::vector<fs::path> files;
  if (!fs::exists(directory)) return files;
  for (const auto& entry : fs::directory_iterator(directory)) files.push_back(entry.path());
  return files;
}

// The most memory that a process had, in bytes.
double peak_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) * 1024;
  return 0.0;
}

struct Start {
  double seconds = 0.0;  // to the first token; negative: there was none
  double peak_bytes = 0.0;
};

Start start_server(const std::string& model, const fs::path& kept, bool waits_for_kept) {
  const auto begin = std::chrono::steady_clock::now();
  test::ServerProcess server({"--model", model, "--model-name", "bench", "--device", "cpu",
                              "--store-directory", kept.string(), "--log-level", "warning"});
  const auto answer = test::http_post(server.port(), "/v1/completions",
                                      R"({"model": "bench", "prompt": "a", "max_tokens": 1})");
  Start start{.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
              .peak_bytes = peak_of(server.pid())};
  if (answer.status != 200) start.seconds = -1;
  const auto is_kept = [&] { return !files_under(kept / "weights").empty(); };
  if (waits_for_kept && !test::eventually(is_kept, std::chrono::minutes(10))) start.seconds = -1;
  server.signal(SIGTERM);
  server.wait();
  return start;
}

struct Samples {
  std::vector<double> seconds, over_read, over_weights;
};

void print(const char* name, const Samples& samples) {
  const auto seconds = bench::spread_of(samples.seconds);
  std::printf("%-32s median %6.2f s (%.2f to %.2f)", name, seconds.median, seconds.minimum, seconds.maximum);
  if (!samples.over_read.empty()) {
    const auto ratio = bench::spread_of(samples.over_read);
    std::printf("; over reading %.2f (%.2f to %.2f); peak over weights %.2f", ratio.median, ratio.minimum,
                ratio.maximum, bench::spread_of(samples.over_weights).median);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : bench::llama_1b_model();
  const int rounds = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 5;
  const auto files = weight_files(model);
  const auto weights = static_cast<double>(plan_cpu_model(model, {}).memory.request.weight_bytes);
  // On the disk that has the model: the temporary directory's, not memory.
  const fs::path kept = fs::temp_directory_path() / "troupe_bench_loading";
  const auto fresh = [&] {
    fs::remove_all(kept);
    fs::create_directory(kept);
    fs::permissions(kept, fs::perms::owner_all);
  };
  fresh();
  for (const bool is_cold : {false, true}) {
    Samples reading, packing, mapping;
    for (int round = 0; round < rounds; ++round) {
      const auto prepare = [&](const std::vector<fs::path>& read) {
        if (is_cold) {
          ::sync();
          drop_from_cache(read);
        } else {
          (void)seconds_to_read(read);
        }
      };
      prepare(files);
      const double read = seconds_to_read(files);
      reading.seconds.push_back(read);
      const auto measure = [&](Samples& samples, bool waits_for_kept) {
        const Start start = start_server(model, kept, waits_for_kept);
        if (start.seconds < 0) return false;
        samples.seconds.push_back(start.seconds);
        samples.over_read.push_back(start.seconds / read);
        samples.over_weights.push_back(start.peak_bytes / weights);
        return true;
      };
      fresh();
      prepare(files);
      if (!measure(packing, true)) return 1;
      prepare(files);
      prepare(files_under(kept / "weights"));
      if (!measure(mapping, false)) return 1;
    }
    std::printf("%s, %d rounds\n", is_cold ? "cold" : "warm", rounds);
    print("reading the files once", reading);
    print("exec to first token, packed", packing);
    print("exec to first token, mapped", mapping);
  }
  fs::remove_all(kept);
  return 0;
}
