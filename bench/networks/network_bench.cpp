// SPDX-License-Identifier: Apache-2.0
#include "bench/networks/network_bench.hpp"

#include <algorithm>
#include <exception>
#include <vector>

#include "bench/networks/direct_loop.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/pages/host_pages.hpp"

namespace troupe::bench {
namespace {

constexpr double kBf16Bytes = 2.0;
constexpr auto kPoll = DirectDevice::Waiting::kPoll;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Weights that every token is multiplied with; the last layer's only where a token
// is drawn.
double num_layer_weights(const ModelConfig& c) {
  const double qkv = (c.num_heads + 2.0 * c.num_kv_heads) * c.head_dim;
  const double per_layer =
      c.hidden_size * (qkv + double{1} * c.num_heads * c.head_dim + 3.0 * c.intermediate_size);
  return per_layer * c.num_layers;
}
double num_head_weights(const ModelConfig& c) { return double{1} * c.vocabulary_size * c.hidden_size; }

double kv_bytes_of_token(const ModelConfig& c) {
  return 2.0 * c.num_layers * c.num_kv_heads * c.head_dim * kBf16Bytes;
}

double prefill_operations(const ModelConfig& c, double tokens) {
  const double attention = 2.0 * c.num_layers * c.num_heads * c.head_dim * tokens * tokens;
  return 2.0 * num_layer_weights(c) * tokens + attention + 2.0 * num_head_weights(c);
}

// One network on one device.
class Run {
 public:
  Run(NetworkBench& bench, const BenchedNetwork& network, Backend& backend)
      : bench_(bench),
        network_(network),
        page_bytes_(backend.plan().memory.request.page_bytes),
        device_(backend.make_device(std::make_shared<HostPages>(bench.scale.num_host_pages, page_bytes_))),
        programs_(make_network(network.config), backend.plan().compute_type,
                  {device_->description().max_batch_tokens,
                   std::min(device_->description().num_slots, device_->description().max_batch_tokens)}) {}

  void decode() {
    const std::string id = "decode_" + network_.id + "_";
    for (const std::uint32_t batch : {1U, 4U, 16U, 64U}) {
      if (batch > bench_.scale.num_slots) continue;
      decode({batch, bench_.scale.context}, id + std::to_string(batch));
    }
  }

  // What does not fit beside the weights is not run; the others are.
  void decode_long() {
    for (const DecodeShape& shape : bench_.scale.long_decodes) {
      const std::string id = "decode_" + network_.id + "_" + std::to_string(shape.batch) + "_at_" +
                             std::to_string(shape.context);
      try {
        decode(shape, id);
      } catch (const TooFewPages& problem) {
        bench_.recorder.add_not_run(id, problem.what());
      }
    }
  }

  void prefill() {
    for (const std::uint32_t tokens : {2048U, 4096U, 8192U}) {
      const std::uint32_t run = std::min(tokens, bench_.scale.max_batch_tokens);
      DirectLoop loop(*device_, programs_, kPoll, 1, run);
      const double seconds = median_of([&] { return loop.prefill(0, 0, run); });
      const double operations = prefill_operations(network_.config, run);
      add("prefill_" + network_.id + "_" + std::to_string(tokens),
          "prefill of " + std::to_string(tokens) + " tokens, " + network_.title,
          operations / seconds / bench_.limits.product_rate, "of product rate", Goal{.at_least = 0.70},
          {{"ms", seconds * 1e3}, {"tokens_per_s", run / seconds}});
    }
  }

  // The largest batch decodes while as many pages go out as come in, about as many
  // as the link can carry.
  void copy_beside_decode() {
    const std::uint32_t steps = bench_.scale.steps, batch = bench_.scale.num_slots;
    DirectLoop loop(*device_, programs_, kPoll, batch, bench_.scale.context + 5 * steps);
    loop.prefill_all(bench_.scale.context - steps);
    loop.decode(steps);
    const auto itl = [&](const auto&... moves) { return loop.decode(steps, moves...).seconds / steps; };
    const double before = itl();
    const std::uint32_t spare = device_->description().num_pages - loop.first_spare_page();
    const double carried = bench_.limits.link_rate * before / static_cast<double>(page_bytes_);
    // Each way; the batches in flight must not write the same pages.
    const auto pages = static_cast<std::uint32_t>(
        std::clamp(0.8 * carried, 1.0, std::min(spare, bench_.scale.num_host_pages) / 4.0));
    const auto moves_of = [&](std::uint32_t step) {
      return moves_both_ways(step, pages, loop.first_spare_page());
    };
    loop.copy(moves_both_ways(0, pages, loop.first_spare_page(), true));
    const double beside = itl(moves_of);
    const double alone = (before + itl()) / 2;  // contexts grow meanwhile
    add("decode_slowed_by_copies", "decode of " + std::to_string(batch) + " streams beside copies of pages",
        beside / alone - 1.0, "slower", Goal{.at_most = 0.03},
        {{"alone_ms", alone * 1e3},
         {"beside_ms", beside * 1e3},
         {"pages_each_way_a_step", pages},
         {"gb_per_s_each_way", pages * static_cast<double>(page_bytes_) / beside * 1e-9}});
  }

  void follow_up() {
    const std::uint32_t known = bench_.scale.history, fresh = bench_.scale.new_tokens;
    DirectLoop loop(*device_, programs_, kPoll, 1, known + fresh);
    const double stateless = median_of([&] { return loop.prefill(0, 0, known + fresh); });
    const double from_device = median_of([&] { return loop.prefill(0, known, fresh); });
    std::vector<PageCopy> out, in;
    for (std::uint32_t page = 0; page < known / device_->description().page_size; ++page) {
      out.push_back({.direction = PageCopy::kStore,
                     .device_page = page,
                     .host_page = page,
                     .generation = next_generation_});
      in.push_back({.device_page = page, .host_page = page, .generation = next_generation_++});
    }
    loop.copy(out);
    const double from_host = median_of([&] { return loop.prefill(0, known, fresh, in); });
    const auto record = [&](const char* id, const char* title, double seconds, double most) {
      add(id, title, seconds / stateless, "of stateless", Goal{.at_most = most},
          {{"ms", seconds * 1e3}, {"stateless_ms", stateless * 1e3}});
    };
    record("follow_up_ttft_device", "next turn, history on the device", from_device, 0.15);
    record("follow_up_ttft_host", "next turn, history in the host tier", from_host, 0.20);
  }

 private:
  void add(std::string id, std::string title, double value, std::string unit, std::optional<Goal> goal,
           std::vector<std::pair<std::string, double>> details) {
    bench_.recorder.add({.id = std::move(id),
                         .title = std::move(title),
                         .value = value,
                         .unit = std::move(unit),
                         .goal = goal,
                         .details = std::move(details)});
  }

  void decode(const DecodeShape& shape, const std::string& id) {
    const std::uint32_t steps = bench_.scale.steps;
    DirectLoop loop(*device_, programs_, kPoll, shape.batch, shape.context + 5 * steps);
    loop.prefill_all(shape.context - steps);
    loop.decode(steps);  // captures and warms
    std::vector<double> itls, gaps;
    const double begin = loop.position();
    for (int i = 0; i < 3; ++i) {
      const auto taken = loop.decode(steps);
      itls.push_back(taken.seconds / steps);
      gaps.push_back(1.0 - taken.network_seconds / taken.seconds);
    }
    const double itl = median(itls), gap = median(gaps), context = (begin + loop.position()) / 2;
    const double roof = decode_roof_seconds(network_.config, bench_.limits, shape.batch, context);
    add(id,
        "decode, " + network_.title + ", " + std::to_string(shape.batch) + " x " +
            std::to_string(shape.context),
        roof / itl, "of the roof", Goal{.at_least = 0.85},
        {{"itl_ms", itl * 1e3}, {"tokens_per_s", shape.batch / itl}, {"context", context}, {"gap", gap}});
    if (shape.batch == 1 && shape.context == bench_.scale.context && bench_.is_complete) record_kernels();
    if (shape.batch != 64 || shape.context != bench_.scale.context || !bench_.is_complete) return;
    add("decode_gap_64", "gap between decode batches of 64 streams", gap, "of an iteration",
        Goal{.at_most = 0.03}, {{"itl_ms", itl * 1e3}});
  }

  // Of a decode step, as the graph that was launched has them.
  void record_kernels() {
    if (!bench_.last_graph_kernels) return;
    // Embedding, norm; rows that are sampled, norm, logits, sampling. The signal is in no graph.
    constexpr double kAroundLayers = 6;
    const auto kernels = static_cast<double>(bench_.last_graph_kernels());
    add("kernels_per_layer", "kernels a layer in decode",
        (kernels - kAroundLayers) / network_.config.num_layers, "kernels", Goal{.at_most = 6.0},
        {{"a_step", kernels}});
  }

  template <typename Body>
  double median_of(Body body) const {
    body();  // warms
    std::vector<double> seconds;
    for (std::uint32_t i = 0; i < bench_.scale.repeats; ++i) seconds.push_back(body());
    return median(std::move(seconds));
  }

  // Quarters of the spare device pages and of the host pages take turns: one is
  // stored, another is loaded from what the step before the last has stored.
  std::vector<PageCopy> moves_both_ways(std::uint32_t step, std::uint32_t pages, std::uint32_t first_spare,
                                        bool only_out = false) {
    std::vector<PageCopy> moves;
    const auto store = [&](std::uint32_t quarter) {
      stored_[quarter] = next_generation_;
      for (std::uint32_t i = 0; i < pages; ++i) {
        moves.push_back({.direction = PageCopy::kStore,
                         .device_page = first_spare + quarter * pages + i,
                         .host_page = quarter * pages + i,
                         .generation = next_generation_++});
      }
    };
    if (only_out) {
      for (std::uint32_t quarter = 0; quarter < 4; ++quarter) store(quarter);
      return moves;
    }
    store(step % 4);
    const std::uint32_t quarter = (step + 2) % 4;
    for (std::uint32_t i = 0; i < pages; ++i) {
      moves.push_back({.device_page = first_spare + quarter * pages + i,
                       .host_page = quarter * pages + i,
                       .generation = stored_[quarter] + i});
    }
    return moves;
  }

  NetworkBench& bench_;
  const BenchedNetwork& network_;
  std::size_t page_bytes_;
  std::unique_ptr<Device> device_;
  ProgramCache programs_;
  std::uint64_t next_generation_ = 1;
  std::uint64_t stored_[4] = {};  // first generation of each quarter
};

}  // namespace

NetworkScale full_scale() { return {}; }

BenchedNetwork llama_8b() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 4096;
  config.intermediate_size = 14336;
  config.num_layers = 32;
  config.num_heads = 32;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.vocabulary_size = 128256;
  config.context_length = 131072;
  config.rope_theta = 500000.0F;
  config.weight_type = DataType::kBF16;
  return {"llama_8b", "Llama-3.1-8B", config};
}

BenchedNetwork llama_13b() {
  BenchedNetwork network = llama_8b();
  network.id = "llama_13b";
  network.title = "Llama-2-13B";
  network.config.hidden_size = 5120;
  network.config.intermediate_size = 13824;
  network.config.num_layers = 40;
  network.config.num_heads = 40;
  network.config.num_kv_heads = 10;
  network.config.vocabulary_size = 32000;
  network.config.context_length = 4096;
  network.config.rope_theta = 10000.0F;
  return network;
}

BackendSettings settings_of(const NetworkScale& scale, const std::string& model_dir) {
  BackendSettings settings;
  settings.model_dir = model_dir;
  settings.compute_type = DataType::kBF16;
  settings.num_slots = scale.num_slots;
  settings.max_batch_tokens = scale.max_batch_tokens;
  return settings;
}

std::uint64_t weight_bytes(const ModelConfig& config) {
  const double weights = num_layer_weights(config) + 2.0 * num_head_weights(config);
  return static_cast<std::uint64_t>(weights * kBf16Bytes);
}

double decode_roof_seconds(const ModelConfig& config, const NetworkLimits& limits, std::uint32_t batch,
                           double context) {
  const double weights = num_layer_weights(config) + num_head_weights(config);
  return std::max(weights * kBf16Bytes / limits.memory_rate, 2.0 * weights * batch / limits.product_rate) +
         batch * context * kv_bytes_of_token(config) / limits.memory_rate;
}

void bench_network(NetworkBench& bench, const BenchedNetwork& network, Backend& backend) {
  Run run(bench, network, backend);
  run.decode();
  if (!bench.is_complete) return;
  run.prefill();
  run.copy_beside_decode();
  run.follow_up();
  run.decode_long();
}

}  // namespace troupe::bench
