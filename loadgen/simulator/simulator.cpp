// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulator.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

#include "loadgen/simulator/synthetic_tokens.hpp"

namespace troupe::loadgen {
namespace {

using Time = std::chrono::nanoseconds;

struct Event {
  enum class Kind : std::uint8_t {
    kConversation,  // the planned one begins; open loop
    kTurn,          // of a conversation, by index
    kArrival,       // a request, by index, reaches the workers
    kBatchDone,     // on a worker
    kQueueCheck,    // on a worker
    kSample,
  };
  Time time{0};
  std::uint64_t order = 0;  // of equal times, the first pushed comes first
  Kind kind = Kind::kConversation;
  std::uint32_t index = 0;
};

struct IsLater {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

struct Conversation {
  PlannedConversation plan;
  std::uint32_t turn = 0;
  std::uint32_t history_tokens = 0;                         // prefix, prompts and answers before this turn
  std::shared_ptr<const std::vector<std::int32_t>> tokens;  // the same; null: nothing shared
};

struct OpenRequest {
  RequestRecord record;
  std::uint32_t conversation = 0;  // index
  std::uint32_t max_tokens = 0;
};

// Values that come and go, each at an index of its own meanwhile.
template <typename Value>
class Slab {
 public:
  std::uint32_t add(Value value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return static_cast<std::uint32_t>(values_.size() - 1);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    values_[index] = std::move(value);
    return index;
  }
  void remove(std::uint32_t index) {
    values_[index] = {};
    free_.push_back(index);
  }
  Value& operator[](std::uint32_t index) { return values_[index]; }
  std::size_t size() const { return values_.size() - free_.size(); }

 private:
  std::vector<Value> values_;
  std::vector<std::uint32_t> free_;
};

class Simulator {
 public:
  Simulator(const CostProfile& profile, ConversationSource& source, std::vector<RequestClass> classes,
            const SimulationSettings& settings);
  Simulation run();

 private:
  void push(Time time, Event::Kind kind, std::uint32_t index);
  void take(const Event& event);
  void prefetch_next() const;
  bool may_send_at(Time time) const { return settings_.duration.count() == 0 || time < settings_.duration; }
  bool plan_conversation();
  std::uint32_t open_conversation();
  void begin_turn(std::uint32_t conversation);
  void arrive(std::uint32_t request);
  SimulatedRequest simulated_request(std::uint32_t request);
  void follow(std::uint32_t worker);
  void schedule(std::uint32_t worker);
  void hear(const ServerEvent& event);
  void add_gap(RequestRecord& record) const;
  void end_request(std::uint32_t request, Outcome outcome);
  void end_conversation(std::uint32_t conversation);
  void take_sample();
  ServerTotals sum_totals() const;

  const CostProfile& profile_;
  ConversationSource& source_;
  SimulationSettings settings_;
  Simulation simulation_;
  std::vector<std::int32_t> blank_prompt_;  // for all workers
  Commands commands_;                       // so too
  std::vector<SimulatedServer> workers_;
  std::vector<WorkerLoad> loads_;  // as the dispatch policy sees them
  std::vector<bool> has_batch_event_, has_check_event_;
  std::unique_ptr<DispatchPolicy> dispatch_;

  std::priority_queue<Event, std::vector<Event>, IsLater> events_;
  std::uint64_t last_order_ = 0;
  Time now_{0};
  PlannedConversation planned_;  // the next to begin
  bool has_planned_ = false;
  Slab<Conversation> conversations_;
  Slab<OpenRequest> requests_;
  ServerTotals sampled_;
};

Simulator::Simulator(const CostProfile& profile, ConversationSource& source,
                     std::vector<RequestClass> classes, const SimulationSettings& settings)
    : profile_(profile),
      source_(source),
      settings_(settings),
      blank_prompt_(profile.serving.limits.longest_sequence(), 0),
      loads_(settings.num_workers),
      has_batch_event_(settings.num_workers, false),
      has_check_event_(settings.num_workers, false),
      dispatch_(make_dispatch_policy(settings.dispatch, settings.seed)) {
  simulation_.result.is_simulated = true;
  simulation_.result.classes = std::move(classes);
  workers_.reserve(settings.num_workers);
  for (std::uint32_t i = 0; i < settings.num_workers; ++i)
    workers_.emplace_back(profile_, blank_prompt_, commands_, settings.records_gaps,
                          settings.seed * 1000 + i);
}

Simulation Simulator::run() {
  if (settings_.num_users == 0) plan_conversation();
  for (std::uint32_t user = 0; user < settings_.num_users && plan_conversation(); ++user)
    push(now_, Event::Kind::kTurn, open_conversation());
  if (settings_.sample_interval.count() > 0) push(settings_.sample_interval, Event::Kind::kSample, 0);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    simulation_.num_events += 1;
    prefetch_next();
    take(event);
  }
  simulation_.totals = sum_totals();
  return std::move(simulation_);
}

void Simulator::push(Time time, Event::Kind kind, std::uint32_t index) {
  events_.push({.time = time, .order = ++last_order_, .kind = kind, .index = index});
}

void Simulator::take(const Event& event) {
  if (event.kind != Event::Kind::kSample && event.kind != Event::Kind::kQueueCheck)
    simulation_.result.duration = std::max(simulation_.result.duration, now_);
  switch (event.kind) {
    case Event::Kind::kConversation:
      begin_turn(open_conversation());
      plan_conversation();
      break;
    case Event::Kind::kTurn: begin_turn(event.index); break;
    case Event::Kind::kArrival: arrive(event.index); break;
    case Event::Kind::kBatchDone:
      has_batch_event_[event.index] = false;
      workers_[event.index].complete_batch();
      if (!events_.empty() && events_.top().kind == Event::Kind::kBatchDone)
        workers_[events_.top().index].prefetch_done();
      follow(event.index);
      break;
    case Event::Kind::kQueueCheck:
      has_check_event_[event.index] = false;
      workers_[event.index].check_queue();
      follow(event.index);
      break;
    case Event::Kind::kSample: take_sample(); break;
  }
}

// A worker's state is far away by the time its next batch is done, when there are many.
void Simulator::prefetch_next() const {
  if (events_.empty() || events_.top().kind != Event::Kind::kBatchDone) return;
  const auto* bytes = reinterpret_cast<const char*>(&workers_[events_.top().index]);
  for (std::size_t line = 0; line < sizeof(SimulatedServer); line += 64) __builtin_prefetch(bytes + line);
}

// False if no further one is to begin.
bool Simulator::plan_conversation() {
  has_planned_ = source_.next(planned_);
  const Time start = settings_.num_users > 0 ? now_ : planned_.start;
  if (!may_send_at(start)) has_planned_ = false;
  if (has_planned_ && settings_.num_users == 0)
    push(std::max(planned_.start, now_), Event::Kind::kConversation, 0);
  return has_planned_;
}

// The planned one, from now on among those under way.
std::uint32_t Simulator::open_conversation() {
  if (planned_.request_class >= simulation_.result.classes.size())
    throw std::runtime_error("conversation " + std::to_string(planned_.number) + ": expected one of " +
                             std::to_string(simulation_.result.classes.size()) +
                             " request classes, got number " + std::to_string(planned_.request_class));
  Conversation conversation;
  conversation.plan = std::move(planned_);
  for (const PrefixBlock& block : conversation.plan.prefix) conversation.history_tokens += block.num_tokens;
  if (profile_.serving.settings.keeps_prefixes()) {
    auto tokens = std::make_shared<std::vector<std::int32_t>>();
    for (const PrefixBlock& block : conversation.plan.prefix) append_prefix(*tokens, block);
    conversation.tokens = std::move(tokens);
  }
  return conversations_.add(std::move(conversation));
}

void Simulator::begin_turn(std::uint32_t index) {
  Conversation& conversation = conversations_[index];
  const PlannedTurn& turn = conversation.plan.turns.at(conversation.turn);
  if (turn.kept_history)
    conversation.history_tokens = std::min(conversation.history_tokens, *turn.kept_history);
  OpenRequest request;
  request.conversation = index;
  request.max_tokens = turn.output_tokens > 0
                           ? turn.output_tokens
                           : simulation_.result.classes[conversation.plan.request_class].max_tokens;
  RequestRecord& record = request.record;
  record.conversation = conversation.plan.number;
  record.turn = conversation.turn;
  record.request_class = conversation.plan.request_class;
  record.intended = record.sent = now_;
  record.prompt_tokens = conversation.history_tokens + turn.prompt_tokens;
  const Time arrival = now_ + profile_.overheads.before_queue(record.prompt_tokens);
  push(arrival, Event::Kind::kArrival, requests_.add(std::move(request)));
}

void Simulator::arrive(std::uint32_t index) {
  const SimulatedRequest request = simulated_request(index);
  const auto worker = static_cast<std::uint32_t>(
      dispatch_->choose({.prompt_tokens = request.prompt_tokens, .max_tokens = request.max_tokens}, loads_));
  workers_[worker].admit(now_, request);
  follow(worker);
}

SimulatedRequest Simulator::simulated_request(std::uint32_t index) {
  const OpenRequest& open = requests_[index];
  Conversation& conversation = conversations_[open.conversation];
  SimulatedRequest request{
      .id = index,
      .prompt_tokens = open.record.prompt_tokens,
      .output_tokens = open.max_tokens,
      .max_tokens =
          std::max(open.max_tokens, simulation_.result.classes[conversation.plan.request_class].asked_tokens),
      .tokens = nullptr};
  if (conversation.tokens) {
    auto tokens = std::make_shared<std::vector<std::int32_t>>(*conversation.tokens);
    tokens->resize(conversation.history_tokens);
    append_prompt(*tokens, open.record.conversation, open.record.turn,
                  conversation.plan.turns[conversation.turn].prompt_tokens);
    append_answer(*tokens, open.record.conversation, open.record.turn, open.max_tokens);
    conversation.tokens = request.tokens = std::move(tokens);
  }
  return request;
}

// Hears what a worker has to say and sees when it will be needed again.
void Simulator::follow(std::uint32_t worker) {
  auto& events = workers_[worker].events();
  for (const ServerEvent& event : events) hear(event);
  events.clear();
  loads_[worker] = workers_[worker].load();
  schedule(worker);
}

void Simulator::schedule(std::uint32_t index) {
  const SimulatedServer& worker = workers_[index];
  const auto done = worker.next_done();
  if (done && !has_batch_event_[index]) {
    has_batch_event_[index] = true;
    push(*done, Event::Kind::kBatchDone, index);
  }
  const auto check = worker.next_check();
  if (check && !has_check_event_[index]) {
    has_check_event_[index] = true;
    push(*check, Event::Kind::kQueueCheck, index);
  }
}

void Simulator::hear(const ServerEvent& event) {
  const auto index = static_cast<std::uint32_t>(event.request);
  RequestRecord& record = requests_[index].record;
  switch (event.kind) {
    case ServerEvent::Kind::kFirstToken:
      record.first_token = record.last_token = now_;
      record.output_tokens = 1;
      record.cached_tokens = event.cached_tokens;
      record.server_queue = event.queue_time;
      break;
    case ServerEvent::Kind::kToken: add_gap(record); break;
    case ServerEvent::Kind::kFinished:
      record.last_token = now_;
      record.output_tokens = requests_[index].max_tokens;
      end_request(index, Outcome::kCompleted);
      break;
    case ServerEvent::Kind::kOverloaded:
      record.status = 429;
      record.error = "the queue was too long, or the wait in it";
      end_request(index, Outcome::kRefused);
      break;
    case ServerEvent::Kind::kRejected:
      record.status = 400;
      record.error = "more tokens than a sequence may have";
      end_request(index, Outcome::kRejected);
      break;
  }
}

void Simulator::add_gap(RequestRecord& record) const {
  const auto gap = std::chrono::duration_cast<std::chrono::microseconds>(now_ - record.last_token);
  record.gaps_us.push_back(static_cast<std::uint32_t>(
      std::min<std::int64_t>(gap.count(), std::numeric_limits<std::uint32_t>::max())));
  record.last_token = now_;
}

void Simulator::end_request(std::uint32_t index, Outcome outcome) {
  OpenRequest& request = requests_[index];
  const std::uint32_t conversation_index = request.conversation;
  RequestRecord record = std::move(request.record);
  record.outcome = outcome;
  record.finished = now_;
  if (outcome == Outcome::kCompleted) {
    record.status = 200;
    record.finished += Time(static_cast<Time::rep>(profile_.overheads.end));
  }
  const Time finished = record.finished;
  Conversation& conversation = conversations_[conversation_index];
  conversation.history_tokens = record.prompt_tokens + record.output_tokens;
  conversation.turn += 1;
  requests_.remove(index);
  simulation_.result.duration = std::max(simulation_.result.duration, finished);
  simulation_.result.records.push_back(std::move(record));
  if (outcome == Outcome::kCompleted && conversation.turn < conversation.plan.turns.size()) {
    const Time next = finished + conversation.plan.turns[conversation.turn].think_time;
    if (may_send_at(next)) return push(next, Event::Kind::kTurn, conversation_index);
  }
  end_conversation(conversation_index);
}

void Simulator::end_conversation(std::uint32_t index) {
  conversations_.remove(index);
  if (settings_.num_users == 0 || !plan_conversation()) return;
  const Time next = now_ + planned_.turns.at(0).think_time;
  if (may_send_at(next)) push(next, Event::Kind::kTurn, open_conversation());
}

void Simulator::take_sample() {
  const ServerTotals totals = sum_totals();
  ServerSample sample{.time = now_};
  for (const SimulatedServer& worker : workers_) {
    sample.num_running += worker.load().num_running;
    sample.num_waiting += worker.load().num_waiting;
    const PageCounts pages = worker.page_counts();
    sample.pages_used += pages.running + pages.cached;
    sample.pages_total += pages.total;
  }
  const std::uint64_t num_batches = totals.num_batches - sampled_.num_batches;
  if (num_batches > 0)
    sample.batch_tokens =
        static_cast<double>(totals.batch_tokens - sampled_.batch_tokens) / static_cast<double>(num_batches);
  sample.generation_tokens = static_cast<double>(totals.output_tokens);
  sampled_ = totals;
  simulation_.result.samples.push_back(sample);
  if (conversations_.size() > 0 || has_planned_)
    push(now_ + settings_.sample_interval, Event::Kind::kSample, 0);
}

ServerTotals Simulator::sum_totals() const {
  ServerTotals sum;
  for (const SimulatedServer& worker : workers_) {
    sum.num_batches += worker.totals().num_batches;
    sum.batch_tokens += worker.totals().batch_tokens;
    sum.output_tokens += worker.totals().output_tokens;
    sum.num_preemptions += worker.totals().num_preemptions;
    sum.num_loads += worker.totals().num_loads;
    sum.num_stores += worker.totals().num_stores;
  }
  return sum;
}

}  // namespace

Simulation simulate(const CostProfile& profile, ConversationSource& source, std::vector<RequestClass> classes,
                    const SimulationSettings& settings) {
  if (settings.num_workers == 0) throw std::runtime_error("simulation: expected at least one worker, got 0");
  if (const auto problem = profile_problem(profile); !problem.empty())
    throw std::runtime_error("cost profile: " + problem);
  return Simulator(profile, source, std::move(classes), settings).run();
}

}  // namespace troupe::loadgen
