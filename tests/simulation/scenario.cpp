// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/scenario.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "policy/admitting/encoding_lanes.hpp"
#include "tests/actors/byte_tokenizer.hpp"
#include "tests/simulation/expected_calls.hpp"
#include "tests/simulation/sim_client.hpp"
#include "tests/simulation/sim_embedder.hpp"
#include "tests/simulation/sim_world.hpp"

namespace troupe::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Long after any scenario should be over, in virtual time.
constexpr std::chrono::minutes kPatience{15};
constexpr std::uint64_t kMaxSteps = 300'000;

enum class Kind : std::uint8_t {
  kChurn,        // many come, many hang up at any moment
  kWorkerDeath,  // devices die, now and then or on one request
  kDoom,         // so often, or so badly, that the engine fails
  kOverload,     // far more than it can take
  kDrain,        // shut down with requests open
  kStarvation,   // hardly any pages
  kSharing,      // common beginnings, follow-up turns
  kReturning,    // a few conversations come back again and again, and vanish
  kPoison,       // some requests kill whatever device they are on, nothing else does
};
constexpr const char* kNames[] = {"churn",      "worker death", "doom",      "overload", "drain",
                                  "starvation", "sharing",      "returning", "poison"};

constexpr Fault kFaults[] = {Fault::kBatchError, Fault::kThrowInSubmit, Fault::kThrowInCollect,
                             Fault::kThrowSomethingElse};

class Scenario {
 public:
  explicit Scenario(std::uint64_t seed);
  ScenarioResult run();

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  bool chance(unsigned percent) { return draw(100) < percent; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + draw(high - low + 1); }

  SimSettings draw_settings();
  std::uint32_t draw_num_workers() const;
  void draw_encoder(SimSettings& settings) const;
  void draw_second_chat(SimSettings& settings) const;
  void draw_reservation(SimSettings& settings) const;
  void live_before(const SimSettings& settings);
  void plan_faults();
  void plan_poisons();
  void plan_late_masks();
  void plan_damage();
  void plan_misfortunes();
  void plan_embedders();
  EmbedderPlan draw_embedder(std::mt19937_64& random) const;
  void watch_deaths();
  ClientPlan draw_client();
  GenerationRequest draw_request();
  void draw_sampling(GenerationRequest& request);
  void draw_form(GenerationRequest& request);
  void draw_flow(GenerationRequest& request);
  void draw_model(GenerationRequest& request) const;
  void draw_tools(GenerationRequest& request, std::string prompt) const;
  std::string draw_prompt();
  std::string draw_known_prompt();
  bool is_poisonous(const Batch& batch) const;
  bool has_hung() const;
  void check_moment();
  void check_end(bool was_in_time);
  bool is_allowed(const ApiError& error, RequestId first, std::size_t num_sequences) const;
  void violate(const std::string& what) { world_->devices().violations.push_back(what); }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  Kind kind_;
  std::uint64_t num_requests_drawn_ = 0;
  // The requests that kill workers, and at which token.
  std::map<std::uint64_t, std::uint64_t> poisons_;
  bool may_fail_ = false;  // the engine
  bool may_hang_ = false;  // a device
  bool may_overload_ = false;
  bool is_drained_ = false;
  std::vector<std::string> earlier_violations_;
  std::unique_ptr<SimWorld> world_;
  std::vector<std::shared_ptr<SimClient>> clients_;
  std::vector<std::shared_ptr<SimEmbedder>> embedders_;
  std::uint64_t num_died_beside_full_ = 0;
};

Scenario::Scenario(std::uint64_t seed) : seed_(seed), random_(seed * 2 + 1) {
  kind_ = static_cast<Kind>(draw(std::size(kNames)));
  const SimSettings settings = draw_settings();
  if (settings.disk.file && chance(60)) live_before(settings);
  world_ = std::make_unique<SimWorld>(settings);
  world_->devices().violations = std::move(earlier_violations_);
  const std::uint64_t num_clients = kind_ == Kind::kOverload     ? between(20, 60)
                                    : kind_ == Kind::kStarvation ? between(6, 20)
                                    : kind_ == Kind::kReturning  ? between(15, 40)
                                                                 : between(1, 16);
  for (std::uint64_t i = 0; i < num_clients; ++i)
    clients_.push_back(std::make_shared<SimClient>(*world_, draw_client()));
  plan_faults();
  plan_poisons();
  plan_embedders();
  plan_damage();
  plan_late_masks();
  plan_misfortunes();
}

SimSettings Scenario::draw_settings() {
  SimSettings settings = small_settings();
  settings.seed = seed_;
  settings.chat_template = sim_chat_template();
  settings.options.num_workers = draw_num_workers();
  draw_encoder(settings);
  draw_reservation(settings);
  DeviceDescription& device = settings.device.description;
  device.page_size = static_cast<std::uint32_t>(between(1, 8));
  device.num_pages = 512 / device.page_size;
  device.num_slots = static_cast<std::uint32_t>(between(1, 10));
  device.max_batch_tokens = static_cast<std::uint32_t>(between(4, 48));
  device.context_length = static_cast<std::uint32_t>(between(40, 120));
  // At times just enough for a sequence alone; the last token is in no list.
  if (seed_ % 2 == 0)
    device.max_penalized_tokens = device.context_length - 1 + static_cast<std::uint32_t>(seed_ % 64);
  device.waits_for_masks = std::mt19937_64(seed_ * 1000 + 901)() % 4 != 0;
  settings.device.is_polled = chance(30);
  settings.device.batch_time = microseconds(between(20, 2000));
  EngineOptions& options = settings.options;
  options.serving.max_batch_tokens = static_cast<std::uint32_t>(between(4, 48));
  options.serving.max_batch_sequences = static_cast<std::uint32_t>(between(1, 10));
  options.serving.prefill_chunk = static_cast<std::uint32_t>(between(1, 32));
  options.serving.max_in_flight = static_cast<std::uint32_t>(between(1, 5));
  options.serving.look_ahead_pages = static_cast<std::uint32_t>(between(0, 2));
  options.pause_bytes = between(4, 30);
  const bool keeps_prefixes = chance(80);
  const auto policy = chance(50) ? EvictionPolicy::kValue : EvictionPolicy::kLru;
  options.serving.cache_policy = keeps_prefixes ? policy : EvictionPolicy::kNone;
  options.serving.copy_ahead_below = static_cast<double>(between(0, 100)) / 100;
  options.serving.keep_free = static_cast<double>(between(0, 20)) / 100;
  if (chance(60)) device.num_host_pages = static_cast<std::uint32_t>(between(1, 200));
  if (chance(50)) options.serving.keep_for = seconds(between(0, 100));
  if (chance(60)) {
    settings.disk.file = std::make_shared<SimFile>();
    settings.disk.file->pages.resize(between(1, 300));
    settings.disk.seed = random_();
    settings.disk.longest = microseconds(between(1, 5000));
    if (chance(30)) settings.disk.percent_failed = static_cast<unsigned>(between(1, 60));
    if (chance(20)) {
      settings.disk.percent_without_room = static_cast<unsigned>(between(1, 60));
      settings.disk.num_pages_lacking = static_cast<std::uint32_t>(between(0, 3));
    }
    if (chance(30)) settings.disk.percent_damaged = static_cast<unsigned>(between(1, 60));
  }
  options.max_restarts = 1000;
  if (kind_ == Kind::kPoison && chance(50)) options.max_restarts = 12;  // three for each
  if (kind_ == Kind::kStarvation)
    device.num_pages =
        static_cast<std::uint32_t>(between(40 / device.page_size + 2, 160 / device.page_size + 3));
  if (kind_ == Kind::kReturning) {  // little on the device, so that most has to be fetched
    device.num_pages = 160 / device.page_size + 2;
    device.num_host_pages = static_cast<std::uint32_t>(between(10, 200));
  }
  if (kind_ == Kind::kOverload) {
    may_overload_ = true;
    options.serving.max_waiting = static_cast<std::uint32_t>(between(1, 12));
    if (chance(50)) options.serving.max_queue_time = milliseconds(between(1, 60));
  }
  if (kind_ == Kind::kDoom) {
    may_fail_ = may_overload_ = true;  // queues stand still when a device hangs
    options.max_restarts = static_cast<std::uint32_t>(between(0, 3));
    if (chance(30))
      settings.fails_to_start = [first = between(1, 3)](std::uint64_t number) { return number >= first; };
  }
  draw_second_chat(settings);
  return settings;
}

// From a number of its own: what else a seed gives stays as it was. Half of the runs
// have one worker.
std::uint32_t Scenario::draw_num_workers() const {
  std::mt19937_64 random(seed_ ^ 0x776f726b65727300ULL);
  const auto drawn = random() % 4;
  return drawn < 2 ? 1 : static_cast<std::uint32_t>(drawn);
}

// From a number of its own, too. A quarter of the runs have a second model, which encodes.
void Scenario::draw_encoder(SimSettings& settings) const {
  std::mt19937_64 random(seed_ ^ 0x656e636f646572ULL);
  if (random() % 4 != 0) return;
  settings.encoder = small_encoder();
  settings.encoder_is_first = random() % 4 == 0;
  settings.encoder->batch_time = microseconds(20 + random() % 1000);
  settings.encoder->token_time = std::chrono::nanoseconds(random() % 4000);
  settings.encoder->description.num_slots = 1 + static_cast<std::uint32_t>(random() % 8);
  settings.options.serving.itl_factor = random() % 2 == 0 ? 0.0 : 2.5;
}

// From a number of its own, too. A quarter of the runs have two chat models, with other times, slots and
// host pages: a prompt that one of them can serve the other can, too.
void Scenario::draw_second_chat(SimSettings& settings) const {
  std::mt19937_64 random(seed_ ^ 0x6368617462657369ULL);
  if (random() % 4 != 0) return;
  SimDeviceSettings& second = settings.second_chat.emplace(settings.device);
  second.is_second = true;
  second.batch_time = microseconds(20 + random() % 2000);
  second.description.num_slots = 1 + static_cast<std::uint32_t>(random() % 8);
  second.description.num_host_pages = random() % 2 == 0 ? 0 : 1 + static_cast<std::uint32_t>(random() % 60);
  if (!settings.encoder) settings.options.serving.itl_factor = random() % 2 == 0 ? 0.0 : 2.5;
}

// From a number of its own, too. Half of the runs set memory aside for answers, or take the
// longest or shortest first; half of these have devices that hand out states, or an encoder that reads the
// prompts that wait.
void Scenario::draw_reservation(SimSettings& settings) const {
  std::mt19937_64 random(seed_ ^ 0x6c656e67746873ULL);
  if (random() % 2 == 0) return;
  ServingSettings& serving = settings.options.serving;
  serving.reservation = static_cast<ReservationPolicy>(random() % 5);
  serving.reserved_quantile = static_cast<double>(random() % 100) / 100;  // 0: as costs say
  serving.admission_order = static_cast<AdmissionOrder>(random() % 3);
  serving.most_wait = static_cast<double>(1 + random() % 8);
  if (random() % 2 == 0) settings.device.state_strength = static_cast<double>(random() % 11) / 10;
  if (settings.encoder && random() % 2 == 0)
    settings.options.length_encoder = settings.encoder_is_first ? 0 : 1;
}

// A few requests for vectors beside the chats, or a flood of them.
void Scenario::plan_embedders() {
  if (!world_->engine_settings().encoder) return;
  std::mt19937_64 random(seed_ ^ 0x766563746f7273ULL);
  const bool is_flood = random() % 2 == 0;
  for (std::uint64_t i = is_flood ? 8 + random() % 8 : 1 + random() % 3; i > 0; --i) {
    embedders_.push_back(std::make_shared<SimEmbedder>(*world_, draw_embedder(random)));
    world_->after(embedders_.back()->plan().submit_after, [client = embedders_.back()] { client->start(); });
  }
  watch_deaths();
}

EmbedderPlan Scenario::draw_embedder(std::mt19937_64& random) const {
  EmbedderPlan plan;
  plan.request.id = "simulated";
  plan.request.model = world_->engine_settings().encoder_is_first ? 0 : 1;
  plan.request.flow = std::string(1, static_cast<char>('a' + random() % 3));
  plan.request.truncates = random() % 4 == 0;
  const std::uint64_t longest = plan.request.truncates ? 60 : 40;
  for (std::uint64_t i = random() % 4 == 0 ? 1 + random() % 80 : 1 + random() % 6; i > 0; --i) {
    const std::string text(1 + random() % longest, static_cast<char>('a' + random() % 26));
    if (random() % 4 == 0) {
      plan.request.inputs.emplace_back(TokenPrompt{ByteTokenizer().encode(text)});
    } else {
      plan.request.inputs.emplace_back(TextPrompt{text});
    }
  }
  plan.submit_after = microseconds(random() % 30'000);
  if (random() % 8 == 0) plan.cancel_after = microseconds(random() % 20'000);
  if (random() % 8 == 0) plan.cancel_after_steps = static_cast<std::uint32_t>(random() % 200);
  return plan;
}

// Counts the workers that die while another one has as many batches as it may.
void Scenario::watch_deaths() {
  auto& choose_fault = world_->devices().choose_fault;
  if (!choose_fault) return;
  choose_fault = [this, choose = std::move(choose_fault)](const Batch& batch, std::uint64_t number) {
    const Fault fault = choose(batch, number);
    const EngineOptions& options = world_->engine_settings().options;
    bool is_any_full = false;
    for (WorkerId id = 0; id < options.num_workers && fault != Fault::kNone; ++id)
      is_any_full =
          is_any_full || (id != world_->devices().submitting &&
                          world_->scheduler().cores().num_in_flight(id) >= options.serving.max_in_flight);
    num_died_beside_full_ += is_any_full ? 1 : 0;
    return fault;
  };
}

// Another process that served with the same disk, until it was killed.
void Scenario::live_before(const SimSettings& settings) {
  world_ = std::make_unique<SimWorld>(settings);
  for (std::uint64_t i = between(1, 8); i > 0; --i) {
    auto client = std::make_shared<SimClient>(*world_, draw_client());
    world_->after(client->plan().submit_after, [client] { client->start(); });
    clients_.push_back(std::move(client));
  }
  world_->run_for(milliseconds(between(1, 80)));
  earlier_violations_ = world_->devices().violations;
  // A kill takes everything at once, which actors can't: what they do to the disk
  // while they end has not happened.
  const SimFile left_behind = *settings.disk.file;
  world_->engine().environment().registry->cancel_all();
  world_->settle();
  world_.reset();
  *settings.disk.file = left_behind;
  clients_.clear();
}

// In half of the runs some masks come too late. From numbers of their own: what else a seed gives stays.
void Scenario::plan_late_masks() {
  std::mt19937_64 random(seed_ * 1000 + 900);
  const std::uint64_t interval = 1 + random() % 8;
  if (random() % 2 == 0) return;
  world_->devices().choose_late_mask = [interval, number = std::uint64_t{0}]() mutable {
    return ++number % interval == 0;
  };
}

// Now and then the host tier has lost what it should have.
void Scenario::plan_damage() {
  if (!chance(30)) return;
  const std::uint64_t interval = between(1, 10);
  world_->devices().choose_damage = [interval, number = std::uint64_t{0}]() mutable {
    return ++number % interval == 0;
  };
}

// Which batches kill: at token 0, 1, in the middle, again and again.
void Scenario::plan_faults() {
  if (kind_ != Kind::kWorkerDeath && kind_ != Kind::kDoom) return;
  may_hang_ = kind_ == Kind::kDoom && chance(30);
  const std::uint64_t first = between(1, 40);
  const std::uint64_t interval = between(7, 60);
  const std::uint64_t salt = random_();
  if (kind_ == Kind::kWorkerDeath && chance(40)) poisons_[between(1, clients_.size())] = 0;
  const std::uint64_t poison_length = between(0, 60);
  for (auto& [id, length] : poisons_) length = poison_length;
  world_->devices().choose_fault = [=, this](const Batch& batch, std::uint64_t number) {
    const Fault fault = kFaults[(salt ^ number) % std::size(kFaults)];
    if (is_poisonous(batch)) return fault;
    if (number < first || (number - first) % interval != 0) return Fault::kNone;
    return may_hang_ ? Fault::kNeverCompletes : fault;
  };
}

// Of several they may die of the same batch, of different ones in flight, or long
// after each other.
void Scenario::plan_poisons() {
  if (kind_ != Kind::kPoison) return;
  for (std::uint64_t i = between(1, 4); i > 0; --i) poisons_[between(1, clients_.size())] = between(1, 50);
  const auto fault = kFaults[draw(std::size(kFaults))];
  world_->devices().choose_fault = [this, fault](const Batch& batch, std::uint64_t) {
    return is_poisonous(batch) ? fault : Fault::kNone;
  };
}

bool Scenario::is_poisonous(const Batch& batch) const {
  return std::any_of(batch.slices.begin(), batch.slices.end(), [this](const SequenceSlice& slice) {
    const auto found = poisons_.find(slice.sequence);
    return found != poisons_.end() && slice.context_length + slice.num_tokens > found->second;
  });
}

void Scenario::plan_misfortunes() {
  for (const auto& client : clients_)
    world_->after(client->plan().submit_after, [client] { client->start(); });
  if (kind_ == Kind::kDrain) {
    const auto start = milliseconds(between(0, 40));
    world_->after(start, [this] {
      is_drained_ = true;
      world_->engine().environment().board->become_draining();
    });
    world_->after(start + milliseconds(between(0, 40)), [this] {
      for (const auto& client : clients_) client->expect_cancel();
      for (const auto& client : embedders_) client->expect_cancel();
      world_->engine().environment().registry->cancel_all();
    });
  }
  if (kind_ == Kind::kDoom && chance(30)) {
    const auto victim = draw(4);
    world_->after(milliseconds(between(0, 30)), [this, victim] {
      const auto& actors = world_->engine().actors();
      if (victim == 0) send_stop(actors.scheduler);
      if (victim == 1) send_stop(actors.tier);
      if (victim == 2) send_stop(actors.encoder);
      if (victim == 3) send_stop(world_->engine().supervisor());
    });
  }
}

ClientPlan Scenario::draw_client() {
  ClientPlan plan;
  plan.request = draw_request();
  plan.submit_after = microseconds(draw(kind_ == Kind::kOverload ? 2'000 : 40'000));
  const unsigned hang_up = kind_ == Kind::kChurn        ? 60
                           : kind_ == Kind::kReturning  ? 75
                           : kind_ == Kind::kSharing    ? 40
                           : kind_ == Kind::kStarvation ? 6
                                                        : 15;
  if (chance(hang_up / 3)) plan.cancel_at_event = static_cast<std::uint32_t>(between(1, 40));
  if (chance(hang_up / 3)) plan.cancel_after = microseconds(draw(60'000));
  if (chance(hang_up / 3)) plan.cancel_after_steps = static_cast<std::uint32_t>(draw(200));
  if (chance(20)) plan.read_interval = microseconds(between(100, 50'000));
  return plan;
}

GenerationRequest Scenario::draw_request() {
  const DeviceDescription& device = world_->engine_settings().device.description;
  const std::uint32_t longest = std::min(device.context_length, device.page_size * device.num_pages);
  GenerationRequest request;
  request.id = "simulated";
  request.model = world_->engine_settings().encoder_is_first ? 1 : 0;
  std::string prompt = draw_prompt();
  if (prompt.size() > longest - 1) prompt.resize(longest - 1);
  const std::uint64_t room = longest - prompt.size();
  if (chance(80)) request.max_tokens = static_cast<std::uint32_t>(between(1, room));
  const std::uint64_t most = request.max_tokens.value_or(static_cast<std::uint32_t>(room));
  if (chance(20)) request.min_tokens = static_cast<std::uint32_t>(draw(most + 1));
  if (chance(20)) request.ignore_eos = true;
  if (chance(10)) request.echo = true;
  if (chance(10)) request.stop_token_ids.push_back('a' + static_cast<std::int32_t>(draw(26)));
  if (chance(10)) request.include_stop_in_output = true;
  for (std::uint64_t i = chance(30) ? between(1, 3) : 0; i > 0; --i) {
    std::string stop(between(1, 2), 'a');
    for (char& letter : stop) letter = static_cast<char>('a' + draw(26));
    request.stop.push_back(stop);
  }
  request.sampling.seed = draw(1000);
  request.has_seed = true;
  draw_sampling(request);
  draw_form(request);
  draw_flow(request);
  draw_model(request);
  if (chance(20)) {
    request.prompt = TokenPrompt{ByteTokenizer().encode(prompt)};
  } else {
    request.prompt = TextPrompt{prompt};
  }
  draw_tools(request, std::move(prompt));
  return request;
}

// From numbers of their own: what else a seed gives stays as it was.
void Scenario::draw_sampling(GenerationRequest& request) {
  SamplingParameters& sampling = request.sampling;
  std::mt19937_64 random(seed_ * 1000 + num_requests_drawn_++);
  if (random() % 4 == 0) sampling.frequency_penalty = 0.5F;
  if (random() % 4 == 0) sampling.repetition_penalty = 1.2F;
  if (random() % 4 == 0) sampling.top_logprobs = static_cast<std::int32_t>(random() % 4);
  if (sampling.wants_logprobs() && random() % 2 == 0) request.echo = true;  // the prompt's, too
}

// From numbers of their own, too.
void Scenario::draw_form(GenerationRequest& request) {
  std::mt19937_64 random(seed_ * 1000 + num_requests_drawn_ + 500);
  if (random() % 5 != 0) return;
  request.form = sim_form(static_cast<std::uint32_t>(1 + random() % 12));
  request.min_tokens = 0;
  request.ignore_eos = false;
}

// From numbers of their own, too. The answer's parts are checked, not where they are stopped or echoed.
void Scenario::draw_tools(GenerationRequest& request, std::string prompt) const {
  std::mt19937_64 random(seed_ * 1000 + num_requests_drawn_ + 600);
  if (random() % 4 != 0 || request.form) return;
  request.prompt = sim_tools_prompt(std::move(prompt));
  request.min_tokens = 0;
  request.ignore_eos = request.echo = request.include_stop_in_output = false;
  request.stop.clear();
  request.sampling.top_logprobs = SamplingParameters::kNoLogprobs;
}

// From numbers of their own, too. In two of three runs all are one flow.
void Scenario::draw_flow(GenerationRequest& request) {
  if (seed_ % 3 != 0) return;
  std::mt19937_64 random(seed_ * 1000 + num_requests_drawn_);
  request.flow = std::string(1, static_cast<char>('a' + std::min(random() % 3, random() % 3)));
}

// From numbers of their own, too. Half of the requests are another chat model's, where there are two.
void Scenario::draw_model(GenerationRequest& request) const {
  const SimSettings& settings = world_->engine_settings();
  std::mt19937_64 random(seed_ * 1000 + num_requests_drawn_ + 700);
  if (settings.second_chat && random() % 2 == 0) request.model = settings.second_chat_index();
}

std::string Scenario::draw_prompt() {
  if (kind_ == Kind::kReturning) return draw_known_prompt();
  std::string prompt;
  if (kind_ == Kind::kSharing || chance(20)) prompt.assign(between(1, 40), chance(50) ? 'x' : 'y');
  const std::uint64_t own = between(1, chance(30) ? 60 : 12);
  for (std::uint64_t i = 0; i < own; ++i) prompt += static_cast<char>('a' + draw(26));
  return prompt;
}

// What one of a few conversations has come to.
std::string Scenario::draw_known_prompt() {
  std::mt19937_64 words(seed_ ^ draw(6));
  std::string prompt(between(8, 100), 'a');
  for (char& letter : prompt) letter = static_cast<char>('a' + words() % 26);
  return prompt;
}

ScenarioResult Scenario::run() {
  const TimePoint deadline = world_->now() + kPatience;
  bool is_late = false;
  const bool has_settled = world_->run(
      [&] {
        check_moment();
        is_late = world_->now() > deadline;
        return is_late || has_hung() || !world_->devices().violations.empty();
      },
      kMaxSteps);
  check_end(has_settled && !is_late);
  ScenarioResult result;
  result.name = kNames[static_cast<std::size_t>(kind_)];
  result.violations = world_->devices().violations;
  result.trace_hash = world_->trace_hash();
  result.num_steps = world_->num_steps();
  result.num_requests = clients_.size();
  result.num_devices = world_->devices().num_devices;
  result.num_workers = world_->engine_settings().options.num_workers;
  result.num_moved = world_->devices().num_moved;
  result.num_preemptions = static_cast<std::uint64_t>(world_->metric("troupe_num_preemptions_total"));
  result.num_written = static_cast<std::uint64_t>(world_->metric("troupe_kv_pages_written_total"));
  result.num_masks_in_time = world_->devices().num_masks_in_time;
  result.num_masks_late = world_->devices().num_masks_late;
  result.num_copies_within = world_->devices().num_copies_within;
  result.num_left_in_load = world_->devices().num_left_in_load;
  result.num_left_in_store = world_->devices().num_left_in_store;
  result.num_left_in_read = world_->devices().num_left_in_read;
  result.num_read = static_cast<std::uint64_t>(world_->metric("troupe_kv_pages_read_total"));
  result.num_died_beside_full = num_died_beside_full_;
  const SimSettings& settings = world_->engine_settings();
  for (const auto& client : clients_) {
    if (client->finished() && !client->calls().empty()) result.num_called_answers += 1;
    if (!settings.second_chat || !client->finished()) continue;
    const bool is_second = client->plan().request.model == settings.second_chat_index();
    (is_second ? result.num_second_answers : result.num_first_answers) += 1;
  }
  for (const auto& client : embedders_) {
    result.num_inputs += client->num_inputs();
    result.num_vectors += client->has_vectors() ? client->num_inputs() : 0;
  }
  return result;
}

// Its worker goes on polling for ever, though nobody waits any more.
bool Scenario::has_hung() const {
  const auto has_ended = [](const auto& client) { return client->has_ended(); };
  return may_hang_ && std::all_of(clients_.begin(), clients_.end(), has_ended) &&
         std::all_of(embedders_.begin(), embedders_.end(), has_ended);
}

// Whenever nobody has a message.
void Scenario::check_moment() {
  for (const auto& client : clients_)
    if (client->has_ended()) world_->devices().ended.insert(client->id());
  for (const auto& client : embedders_)
    for (std::size_t i = 0; i < client->num_inputs() && client->has_ended(); ++i)
      world_->devices().ended.insert(client->id() + i);
  if (world_->engine().status().state == EngineState::kFailed) return;
  const ModelCores& cores = world_->scheduler().cores();
  for (ModelIndex model = 0; model < cores.num_models(); ++model) {
    const EngineCore* const core = cores.generator(model);
    if (!core) continue;
    if (!core->pages().is_consistent()) violate("pages are inconsistent");
    const PageCounts counts = core->pages().counts();
    if (counts.free + counts.cached + counts.running != counts.total) violate("pages are lost");
  }
}

void Scenario::check_end(bool was_in_time) {
  if (!world_->devices().violations.empty()) return;
  if (!was_in_time) violate("it does not come to an end");
  for (const auto& client : clients_) {
    const std::string who = "request " + std::to_string(client->id()) + ": ";
    if (!client->has_ended()) violate(who + "never ended");
    if (client->error() && !is_allowed(*client->error(), client->id(), 1))
      violate(who + "failed: " + client->error()->message);
  }
  for (const auto& client : embedders_) {
    const std::string who = "embedding request " + std::to_string(client->id()) + ": ";
    if (!client->has_ended()) violate(who + "never ended");
    if (client->error() && !is_allowed(*client->error(), client->id(), client->num_inputs()))
      violate(who + "failed: " + client->error()->message);
  }
  const ActorEnvironment& environment = world_->engine().environment();
  if (environment.registry->size() > 0) violate("requests are left in the registry");
  if (environment.board->num_open != 0) violate("requests are counted as open");
  if (environment.door->num_inside() != 0) violate("requests are counted as unadmitted");
  if (environment.searches->num_inside() != 0) violate("searches are counted as open");
  if (environment.board->num_paused != 0) violate("requests are counted as paused");
  if (environment.board->num_encoding != 0) violate("requests are counted as being encoded");
  if (environment.board->num_in_store != 0) violate("requests are counted as in the store");
  if (environment.board->num_fetching != 0) violate("requests are counted as being fetched");
  const std::uint32_t num_workers = world_->engine_settings().options.num_workers;
  // Two deaths each, or three if it kills alone before it is where it was: then a
  // prefix was found in the cache the first time.
  if (kind_ == Kind::kPoison && world_->devices().num_devices > num_workers + 3 * poisons_.size())
    violate("too many devices died of too few requests");
  if (environment.board->state() == EngineState::kFailed) {
    if (!may_fail_) violate("the engine failed: " + environment.board->failure());
    return;
  }
  if (may_hang_) return;
  if (world_->scheduler().num_sequences() > 0) violate("sequences are left in the scheduler");
  if (world_->scheduler().cores().page_counts().running > 0) violate("pages are held by nobody");
  if (environment.board->pages_running != 0) violate("pages are shown as held");
  // One of several that died too often is done without.
  const std::size_t num_alive = world_->devices().alive.size();
  if (num_alive != num_workers && (!may_fail_ || num_alive == 0)) violate("a worker is missing");
  if (world_->engine_settings().second_chat && world_->devices().second_chats.size() != num_alive)
    violate("a worker lacks the device of a model");
  if (environment.board->num_workers_up != num_alive) violate("workers are shown that are not up");
  // Scheduler, cache tier, encoder with a thread a lane, supervisor, workers with their runners; a predictor,
  // if one is asked, and a reader of prompts, if it has had any to read.
  const std::size_t num_predictors = environment.options.serving.foresees_lengths() ? 1 : 0;
  const std::size_t num_readers = world_->metric("troupe_length_readings_total") > 0 ? 1 : 0;
  const std::size_t num_others = num_predictors + num_readers;
  if (environment.census->count() != 4 + num_others + 2 * num_alive + EncodingLanes::kNumLanes)
    violate("there are more actors than there should be, or fewer");
}

bool Scenario::is_allowed(const ApiError& error, RequestId first, std::size_t num_sequences) const {
  if (http_status(error.kind) == 429) return may_overload_;
  if (error.kind == ApiErrorKind::kUnavailable) return may_fail_ || is_drained_;
  // Whoever was alone with a device that died twice is taken for the cause.
  const auto poison = poisons_.lower_bound(first);
  const bool is_poison = poison != poisons_.end() && poison->first < first + num_sequences;
  if (error.kind == ApiErrorKind::kInternal)
    return is_poison || kind_ == Kind::kWorkerDeath || kind_ == Kind::kDoom;
  return false;
}

}  // namespace

ScenarioResult run_scenario(std::uint64_t seed) { return Scenario(seed).run(); }

}  // namespace troupe::sim
