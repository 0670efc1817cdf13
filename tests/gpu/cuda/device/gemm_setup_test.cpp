// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_setup.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "tests/support/eventually.hpp"

namespace troupe {
namespace {

// Few bins, so that one start measures all of them.
BackendSettings settings_in(const TemporaryDirectory& directory) {
  auto settings = small_settings(DataType::kBF16);
  settings.max_batch_tokens = 2;
  settings.num_slots = 2;
  settings.gemm_choices = directory.path();
  return settings;
}

// How often this process has the file open.
std::size_t num_descriptors_of(const std::filesystem::path& file) {
  std::size_t count = 0;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;  // another thread's may be closed by now
    if (std::filesystem::read_symlink(descriptor, error) == file) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("product setup: what was measured at one start is used at the next") {
  const TemporaryDirectory directory;
  cuda::GemmChoices first;
  {
    const SmallCudaModel model(settings_in(directory));
    CHECK(model.news() == "");
    first = model.get()->gemms;
    CHECK(!first.empty());
  }
  const SmallCudaModel model(settings_in(directory));
  CHECK(model.news() == "");
  for (const auto& [shape, choice] : first) CHECK(model.get()->gemms.at(shape) == choice);
}

TEST_CASE("product setup: logits are measured for as many rows as a batch samples, no more") {
  const TemporaryDirectory directory;
  auto settings = settings_in(directory);
  settings.max_batch_tokens = 8;
  const SmallCudaModel model(settings);
  std::uint32_t most_logits = 0, most_others = 0;
  for (const auto& [shape, choice] : model.get()->gemms) {
    auto& most = shape.num_outputs == small_llama().vocabulary_size ? most_logits : most_others;
    most = std::max(most, shape.num_tokens);
  }
  // Slots, however many a slow machine has had the time for.
  CHECK(most_logits <= 2);
  CHECK(most_others > 0);
}

TEST_CASE("product setup: what another worker measures meanwhile is waited for, and used") {
  const TemporaryDirectory directory;
  cuda::GemmChoices first;
  {
    const SmallCudaModel model(settings_in(directory));
    first = model.get()->gemms;
  }
  const auto file = directory.path() / "product-choices.json", aside = directory.path() / "aside";
  std::filesystem::rename(file, aside);
  const auto lock_file = std::filesystem::canonical(directory.path() / "product-choices.lock");
  const int lock = ::open(lock_file.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
  bool was_waited_for = false;
  std::thread other([&] {  // has measured before it lets go
    was_waited_for = test::eventually([&] { return num_descriptors_of(lock_file) == 2; });
    std::filesystem::rename(aside, file);
    ::close(lock);
  });
  const SmallCudaModel model(settings_in(directory));
  other.join();
  CHECK(was_waited_for);
  CHECK(model.news() == "");
  // Whatever a slow machine had no time for at the first start is measured now.
  for (const auto& [shape, choice] : first) CHECK(model.get()->gemms.at(shape) == choice);
}

TEST_CASE("product setup: a damaged file costs a measurement and says so") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "product-choices.json") << "{\"format\": ";
  const SmallCudaModel model(settings_in(directory));
  CHECK(model.news() != "");
  CHECK(!model.get()->gemms.empty());
}

TEST_CASE("product setup: what is shipped is used, measured or not") {
  const TemporaryDirectory shipped;
  cuda::GemmChoices first;
  {
    const SmallCudaModel model(settings_in(shipped));
    first = model.get()->gemms;
  }
  auto settings = small_settings(DataType::kBF16);
  settings.shipped_gemm_choices = shipped.path();
  const SmallCudaModel unmeasured(settings);
  CHECK(unmeasured.news() == "");
  CHECK(unmeasured.get()->gemms == first);
  // With a place to keep them, only what is missing is measured, and nothing is kept twice.
  const TemporaryDirectory kept;
  auto few = settings_in(kept);
  few.shipped_gemm_choices = shipped.path();
  const SmallCudaModel model(few);
  for (const auto& [shape, choice] : first) CHECK(model.get()->gemms.at(shape) == choice);
  few.gemm_choices = "";
  few.shipped_gemm_choices = kept.path();
  const SmallCudaModel from_kept(few);
  for (const auto& [shape, choice] : from_kept.get()->gemms) CHECK(!first.contains(shape));
}

TEST_CASE("product setup: without a directory nothing is measured") {
  const SmallCudaModel plain(small_settings(DataType::kBF16));
  CHECK(plain.get()->gemms.empty());
}

TEST_CASE("product setup: a directory that is not there is no reason not to start") {
  auto settings = small_settings(DataType::kBF16);
  settings.gemm_choices = "/nowhere/at/all";
  const SmallCudaModel model(settings);
  CHECK(model.news().find("/nowhere/at/all") != std::string::npos);
}

}  // namespace troupe
