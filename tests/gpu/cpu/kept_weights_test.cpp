// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kept_weights.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/cpu/cpu_model.hpp"
#include "gpu/model/safetensors.hpp"
#include "telemetry/log.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRoom = 1ULL << 30;

// A model, and a directory for its weights.
class Place {
 public:
  Place() {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    write_random_llama(model(), tiny_llama(), 1);
  }

  fs::path model() const { return directory_.path() / "model"; }
  fs::path weights() const { return directory_.path() / "weights"; }

  CpuModelPlan plan(Quantization quantization = Quantization::kKeep, std::uint64_t room = kRoom) const {
    return plan_of(model(), quantization, room);
  }
  CpuModelPlan plan_of(const fs::path& path, Quantization quantization = Quantization::kKeep,
                       std::uint64_t room = kRoom, DataType compute_type = DataType::kBF16) const {
    return plan_cpu_model(path, {.compute_type = compute_type,
                                 .quantization = quantization,
                                 .num_threads = 2,
                                 .max_pages = 64,
                                 .kept_weights = {.path = weights().string(), .max_bytes = room}});
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (!fs::exists(weights())) return found;
    for (const auto& entry : fs::directory_iterator(weights())) found.push_back(entry.path());
    return found;
  }

 private:
  TemporaryDirectory directory_;
};

CpuWeightSettings settings_of(const CpuModelPlan& plan) {
  return {.compute_type = plan.compute_type, .quantization = plan.settings.quantization};
}

KeptWeights kept_by(const CpuModelPlan& plan) {
  return {plan.settings.kept_weights, *plan.store, *plan.network, settings_of(plan)};
}

// Packs, and writes what is packed. Empty: it is there.
std::string keep(const CpuModelPlan& plan, const std::stop_token& stop = {}) {
  ThreadPool threads({.num_threads = 2});
  const CpuWeights weights(*plan.store, *plan.network, settings_of(plan), threads);
  return kept_by(plan).write(weights, stop);
}

bool is_mapped(const CpuModelPlan& plan) {
  ThreadPool threads({.num_threads = 2});
  return kept_by(plan).map(threads).has_value();
}

std::vector<std::vector<std::int32_t>> tokens_of(const std::shared_ptr<const CpuModel>& model) {
  CpuDevice device(model);
  ProgramCache programs(model->network, model->compute_type, model->largest);
  return generate(device, programs, {{.prompt = {3, 4, 5, 6, 7}, .num_new = 12}});
}

void check_same(const CpuWeights& mapped, const CpuWeights& packed) {
  REQUIRE(mapped.segments().size() == packed.segments().size());
  for (std::size_t i = 0; i < packed.segments().size(); ++i)
    CHECK(std::ranges::equal(mapped.segments()[i], packed.segments()[i]));
}

// Where files can't be written without a name, nothing is kept.
bool can_keep() {
  const TemporaryDirectory directory;
  const int file = ::open(directory.path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) MESSAGE("SKIPPED: the file system has no files without a name");
  if (file >= 0) ::close(file);
  return file >= 0;
}

fs::path copied_family(const TemporaryDirectory& place, const char* name) {
  const auto copy = place.path() / name;
  fs::copy(fs::path(TROUPE_SOURCE_DIR) / "tests/fixtures/families" / name, copy);
  return copy;
}

void replace_text(const fs::path& path, const std::string& old, const std::string& replacement) {
  std::string text = test::file_text(path);
  const auto at = text.find(old);
  REQUIRE(at != std::string::npos);
  std::ofstream(path) << text.replace(at, old.size(), replacement);
}

void overwrite(const fs::path& path, std::streamoff offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file << bytes;
  REQUIRE(file.flush());
}

}  // namespace

TEST_CASE("kept weights: what is mapped is byte for byte what was packed, and gives its tokens") {
  if (!can_keep()) return;
  for (const auto quantization : {Quantization::kNone, Quantization::kQ8, Quantization::kQ4}) {
    CAPTURE(name_of(quantization));
    const Place place;
    auto plan = place.plan(quantization);
    REQUIRE(keep(plan) == "");
    const auto mapped = load_cpu_model(plan);
    CHECK(mapped->weights->is_packed_before());
    CHECK(mapped->writer == nullptr);
    plan.settings.kept_weights = {};
    const auto packed = load_cpu_model(plan);
    CHECK_FALSE(packed->weights->is_packed_before());
    check_same(*mapped->weights, *packed->weights);
    CHECK(tokens_of(mapped) == tokens_of(packed));
  }
}

TEST_CASE("kept weights: blocks of a file, with a head that has the table's rows") {
  if (!can_keep()) return;
  const Place place;
  const TemporaryDirectory twins;
  const auto gguf = twins.path() / "model.gguf";
  ModelConfig config = tiny_llama();
  config.tied_embeddings = true;
  test::write_twins(gguf, twins.path() / "plain", config, BlockFormat::kQ8_0, 3);
  auto plan = place.plan_of(gguf);
  REQUIRE(keep(plan) == "");
  const auto mapped = load_cpu_model(plan);
  REQUIRE(mapped->weights->is_packed_before());
  plan.settings.kept_weights = {};
  const auto packed = load_cpu_model(plan);
  check_same(*mapped->weights, *packed->weights);
  CHECK(tokens_of(mapped) == tokens_of(packed));
}

TEST_CASE("kept weights: f16 ones are mapped as f16, and never where they are to be bf16") {
  if (!can_keep()) return;
  const Place place;
  const TemporaryDirectory twins;
  const auto gguf = twins.path() / "model.gguf";
  test::write_twins(gguf, twins.path() / "plain", tiny_llama(), BlockFormat::kF16, 3);
  auto plan = place.plan_of(gguf, Quantization::kKeep, kRoom, DataType::kF32);
  REQUIRE(keep(plan) == "");
  CHECK_FALSE(is_mapped(place.plan_of(gguf)));
  const auto mapped = load_cpu_model(plan);
  REQUIRE(mapped->weights->is_packed_before());
  CHECK(mapped->weights->find_matrix("lm_head")->parts.front().format() == BlockFormat::kF16);
  plan.settings.kept_weights = {};
  const auto packed = load_cpu_model(plan);
  check_same(*mapped->weights, *packed->weights);
  CHECK(tokens_of(mapped) == tokens_of(packed));
}

TEST_CASE("kept weights: a server that starts keeps them by itself") {
  if (!can_keep()) return;
  const Place place;
  const auto first = load_cpu_model(place.plan());
  REQUIRE(first->writer != nullptr);
  first->writer->wait();
  CHECK(place.files().size() == 1);
  CHECK(load_cpu_model(place.plan())->weights->is_packed_before());
}

TEST_CASE("kept weights: other settings and a changed model have none") {
  if (!can_keep()) return;
  const Place place;
  REQUIRE(keep(place.plan()) == "");
  CHECK(is_mapped(place.plan()));
  CHECK_FALSE(is_mapped(place.plan(Quantization::kQ8)));
  const auto tensors = place.model() / "model.safetensors";
  fs::last_write_time(tensors, fs::last_write_time(tensors) + std::chrono::seconds(1));
  CHECK_FALSE(is_mapped(place.plan()));
}

TEST_CASE("kept weights: another meaning of the same quantized bytes has none") {
  if (!can_keep()) return;
  const Place place;
  const TemporaryDirectory models;
  const auto model = copied_family(models, "llama_gptq_v2");
  REQUIRE(keep(place.plan_of(model)) == "");
  REQUIRE(is_mapped(place.plan_of(model)));
  replace_text(model / "config.json", "\"gptq_v2\"", "\"gptq\"");
  CHECK_FALSE(is_mapped(place.plan_of(model)));
}

TEST_CASE("kept weights: a tensor of another shard has none") {
  if (!can_keep()) return;
  const Place place;
  const auto whole = place.model() / "model.safetensors";
  fs::rename(whole, place.model() / "one.safetensors");
  fs::copy_file(place.model() / "one.safetensors", place.model() / "two.safetensors");
  nlohmann::json map = nlohmann::json::object();
  {
    const SafetensorsFile file(place.model() / "one.safetensors");
    for (const auto& entry : file.entries()) map[entry.name] = "one.safetensors";
  }
  map["model.norm.weight"] = "two.safetensors";
  const auto index = place.model() / "model.safetensors.index.json";
  std::ofstream(index) << nlohmann::json{{"weight_map", map}};
  REQUIRE(keep(place.plan()) == "");
  REQUIRE(is_mapped(place.plan()));
  map["model.embed_tokens.weight"] = "two.safetensors";
  std::ofstream(index) << nlohmann::json{{"weight_map", map}};
  CHECK_FALSE(is_mapped(place.plan()));
}

TEST_CASE("kept weights: those of a file that was replaced after it was opened are not the new one's") {
  if (!can_keep()) return;
  const Place place;
  const auto plan = place.plan();
  const auto tensors = place.model() / "model.safetensors", other = place.model() / "other";
  fs::copy_file(tensors, other);
  fs::rename(other, tensors);
  REQUIRE(keep(plan) == "");
  CHECK_FALSE(is_mapped(place.plan()));
}

TEST_CASE("kept weights: a model whose files are removed once they are open is loaded") {
  const Place place;
  const auto plan = place.plan();
  fs::remove(place.model() / "model.safetensors");
  CHECK(load_cpu_model(plan)->weights != nullptr);
}

TEST_CASE("kept weights: a file of the right header and the wrong size is replaced") {
  if (!can_keep()) return;
  const Place place;
  REQUIRE(keep(place.plan()) == "");
  const auto file = place.files().at(0);
  const std::uint64_t size = fs::file_size(file) - 64;
  fs::resize_file(file, size);
  overwrite(file, 16 + 32, std::string(reinterpret_cast<const char*>(&size), sizeof size));
  REQUIRE(is_mapped(place.plan()));
  const auto packed = load_cpu_model(place.plan());
  CHECK_FALSE(packed->weights->is_packed_before());
  REQUIRE(packed->writer != nullptr);
  packed->writer->wait();
  CHECK(load_cpu_model(place.plan())->weights->is_packed_before());
}

TEST_CASE("kept weights: a damaged file is removed, and the model is packed again") {
  if (!can_keep()) return;
  for (const bool is_short : {false, true}) {
    CAPTURE(is_short);
    const Place place;
    REQUIRE(keep(place.plan()) == "");
    const auto file = place.files().at(0);
    if (is_short) {
      fs::resize_file(file, fs::file_size(file) - 64);
    } else {
      overwrite(file, 20, "another key");
    }
    CHECK_FALSE(load_cpu_model(place.plan())->weights->is_packed_before());
  }
}

TEST_CASE("kept weights: weights of another size are refused") {
  const Place place;
  const auto plan = place.plan();
  const std::vector<std::byte> few(640), many(1 << 24);
  const auto load = [&](const std::vector<std::byte>& bytes) {
    CpuWeights(*plan.store, *plan.network, settings_of(plan), bytes, nullptr);
  };
  CHECK_THROWS_WITH_AS(load(few), "there are fewer weights than expected", std::runtime_error);
  CHECK_THROWS_WITH_AS(load(many), "there are more weights than expected", std::runtime_error);
}

TEST_CASE("kept weights: those that were not used for longest make room") {
  if (!can_keep()) return;
  const Place place;
  REQUIRE(keep(place.plan()) == "");
  const auto oldest = place.files().at(0);
  const std::uint64_t size = fs::file_size(oldest);
  fs::last_write_time(oldest, fs::last_write_time(oldest) - std::chrono::hours(1));
  REQUIRE(keep(place.plan(Quantization::kQ8, 2 * size)) == "");
  CHECK(place.files().size() == 2);
  REQUIRE(keep(place.plan(Quantization::kQ4, size)) == "");
  CHECK_FALSE(fs::exists(oldest));
  CHECK(is_mapped(place.plan(Quantization::kQ4)));
  CHECK(keep(place.plan(Quantization::kNone, size / 2)).find("allowed are") != std::string::npos);
}

TEST_CASE("kept weights: what another build kept of the same model goes") {
  if (!can_keep()) return;
  const Place place;
  REQUIRE(keep(place.plan()) == "");
  const std::string name = place.files().at(0).filename().string();
  const auto older = place.weights() / (name.substr(0, name.find('-')) + "-0123.packed");
  const auto other = place.weights() / "0123-4567.packed";
  fs::rename(place.files().at(0), older);
  std::ofstream(other) << "another model's";
  REQUIRE(keep(place.plan()) == "");
  CHECK_FALSE(fs::exists(older));
  CHECK(fs::exists(other));
  CHECK(is_mapped(place.plan()));
}

TEST_CASE("kept weights: a server that ends while it writes leaves nothing") {
  if (!can_keep()) return;
  const Place place;
  std::stop_source stop;
  stop.request_stop();
  CHECK(keep(place.plan(), stop.get_token()) == "the server ends");
  CHECK(place.files().empty());
}

TEST_CASE("kept weights: a directory that can't be made is a reason, no fault") {
  const Place place;
  auto plan = place.plan();
  plan.settings.kept_weights.path = (place.model() / "config.json" / "weights").string();
  CHECK(keep(plan) == "Not a directory");
  CHECK(load_cpu_model(plan)->weights != nullptr);
}

TEST_CASE("kept weights: a directory that others may write into is not trusted") {
  if (!can_keep()) return;
  const Place place;
  REQUIRE(keep(place.plan()) == "");
  fs::permissions(place.weights(), fs::perms::group_write, fs::perm_options::add);
  CHECK_FALSE(is_mapped(place.plan()));
  CHECK(place.files().size() == 1);
  CHECK(keep(place.plan()) == "others may write into the directory");
}

TEST_CASE("kept weights: links and files that others may write are not followed") {
  if (!can_keep()) return;
  const Place place;
  REQUIRE(keep(place.plan()) == "");
  const auto file = place.files().at(0);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  CHECK_FALSE(is_mapped(place.plan()));
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  REQUIRE(is_mapped(place.plan()));
  const auto elsewhere = place.model() / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  CHECK_FALSE(is_mapped(place.plan()));
  fs::remove(file);
  fs::rename(elsewhere, file);
  fs::rename(place.weights(), elsewhere);
  fs::create_symlink(elsewhere, place.weights());
  CHECK_FALSE(is_mapped(place.plan()));
  CHECK(keep(place.plan()) == "Not a directory");
}

TEST_CASE("kept weights: weights with copies for oneDNN are not kept") {
  const Place place;
  auto plan = place.plan();
  plan.settings.deterministic = false;
  plan.compute_type = DataType::kF32;  // of which oneDNN has a product on every processor
  CHECK(load_cpu_model(plan)->writer == nullptr);
}

}  // namespace troupe
