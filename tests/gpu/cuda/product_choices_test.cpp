// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/product_choices.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::cuda;

namespace {

const ProductDevice kDevice{.name = "NVIDIA H200",
                            .compute_capability = 90,
                            .num_multiprocessors = 132,
                            .driver_version = 13000,
                            .cublas_version = 130100,
                            .workspace_bytes = 32 << 20};

ProductChoices some_choices() {
  ProductChoices choices;
  choices[{.num_tokens = 64, .num_outputs = 6144, .depth = 4096}] = {
      .algorithm = {0x1234, ~std::uint64_t{0}, 0, 7, 0xABCDEF0123456789, 1, 2, 3},
      .workspace_bytes = 1 << 20,
      .microseconds = 17.25};
  choices[{.num_tokens = 2,
           .num_outputs = 384,
           .depth = 384,
           .type = DataType::kF32,
           .c_type = DataType::kF32,
           .is_exact = true}] = {.microseconds = 2.5};
  choices[{.num_tokens = 1,
           .num_outputs = 6144,
           .depth = 4096,
           .type = DataType::kF16,
           .c_type = DataType::kF32,
           .has_bias = true,
           .adds = true,
           .activation = ProductActivation::kGelu}] = {.kernel = ProductKernel::kFewTokens,
                                                       .microseconds = 1.0 / 3.0};
  return choices;
}

class ChoicesFile {
 public:
  ChoicesFile() : descriptor_(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~ChoicesFile() { ::close(descriptor_); }
  ChoicesFile(const ChoicesFile&) = delete;
  ChoicesFile& operator=(const ChoicesFile&) = delete;

  int directory() const { return descriptor_; }
  std::filesystem::path path() const { return folder_.path() / kProductChoicesFile; }
  std::string text() const { return test::file_text(path()); }
  void set_text(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  void replace(const std::string& what, const std::string& by) const {
    std::string changed = text();
    const auto found = changed.find(what);
    REQUIRE(found != std::string::npos);
    set_text(changed.replace(found, what.size(), by));
  }
  std::string problem(const ProductDevice& device = kDevice) const {
    try {
      return read_product_choices(descriptor_, device) ? "" : "nothing there";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

 private:
  test::TemporaryDirectory folder_;
  int descriptor_;
};

const std::string kNoList = "expected a list of products, each once, and their kernels";
const std::string kWrongChecksum = "expected choices that match their checksum";

}  // namespace

TEST_CASE("product choices: what is written is read again") {
  ChoicesFile file;
  CHECK(file.problem() == "nothing there");
  write_product_choices(file.directory(), kDevice, some_choices());
  CHECK(read_product_choices(file.directory(), kDevice) == some_choices());
  write_product_choices(file.directory(), kDevice, {});
  CHECK(read_product_choices(file.directory(), kDevice) == ProductChoices{});
  CHECK(std::distance(std::filesystem::directory_iterator(file.path().parent_path()), {}) == 1);
}

TEST_CASE("product choices: another device's, driver's or library's are not taken") {
  ChoicesFile file;
  write_product_choices(file.directory(), kDevice, some_choices());
  const auto is_taken = [&](auto change) {
    ProductDevice device = kDevice;
    change(device);
    return file.problem(device).empty();
  };
  CHECK(is_taken([](ProductDevice&) {}));
  CHECK_FALSE(is_taken([](ProductDevice& device) { device.name = "NVIDIA H100"; }));
  CHECK_FALSE(is_taken([](ProductDevice& device) { device.compute_capability = 80; }));
  CHECK_FALSE(is_taken([](ProductDevice& device) { device.num_multiprocessors = 60; }));
  CHECK_FALSE(is_taken([](ProductDevice& device) { device.driver_version = 12090; }));
  CHECK_FALSE(is_taken([](ProductDevice& device) { device.cublas_version = 130003; }));
  CHECK_FALSE(is_taken([](ProductDevice& device) { device.workspace_bytes = 1 << 20; }));
}

TEST_CASE("product choices: a file cut anywhere is none") {
  ChoicesFile file;
  write_product_choices(file.directory(), kDevice, some_choices());
  const std::string whole = file.text();
  for (std::size_t length = 0; length + 1 < whole.size(); length += 7) {
    file.set_text(whole.substr(0, length));
    CHECK(file.problem() == "expected JSON of format 2");
  }
}

TEST_CASE("product choices: damage is noticed, one digit of an algorithm too") {
  ChoicesFile file;
  const auto problem_after = [&](const std::string& what, const std::string& by) {
    write_product_choices(file.directory(), kDevice, some_choices());
    file.replace(what, by);
    return file.problem();
  };
  CHECK(problem_after("abcdef0123456789", "abcdef0123456788") == kWrongChecksum);
  CHECK(problem_after("17.25", "16.25") == kWrongChecksum);
  CHECK(problem_after("\"checksum\": \"", "\"checksum\": \"0") == kWrongChecksum);
  CHECK(problem_after("abcdef0123456789", "abcdef012345678") == kNoList);
  CHECK(problem_after("abcdef0123456789", "abcdef012345678g") == kNoList);
  CHECK(problem_after("1048576", "99999999") == kNoList);  // more than the workspace
  CHECK(problem_after("17.25", "-1") == kNoList);
  CHECK(problem_after("\"few-tokens\"", "\"many-tokens\"") == kNoList);
  CHECK(problem_after("\"bf16\"", "\"i32\"") == kNoList);
  CHECK(problem_after("\"tokens\": 64", "\"tokens\": 63") == kNoList);  // no bin
  CHECK(problem_after("\"tokens\": 64", "\"tokens\": 68719476736") == kNoList);
  CHECK(problem_after("\"format\": 2", "\"format\": 1") == "expected JSON of format 2");
}

TEST_CASE("product choices: whatever else lies there is no choice either") {
  ChoicesFile file;
  for (const std::string text : {"", "[]", "null", "{\"format\": 2}", "\xFF\xFE"}) {
    file.set_text(text);
    CHECK_FALSE(file.problem().empty());
  }
  file.set_text(std::string((4 << 20) + 1, ' '));
  CHECK(file.problem() == "expected at most 4194304 bytes, got more");
  file.set_text("{\"format\": 2, \"choices\": " + std::string(1 << 20, '['));
  CHECK(file.problem() == "expected JSON of format 2");
  std::filesystem::remove(file.path());
  std::filesystem::create_directory(file.path());
  CHECK(file.problem() == "expected a regular file");
  CHECK_THROWS_AS(write_product_choices(file.directory(), kDevice, {}), std::runtime_error);
}
