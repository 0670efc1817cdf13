// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

#include "loadgen/seconds.hpp"
#include "loadgen/simulator/synthetic_tokens.hpp"
#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/random_source.hpp"

namespace troupe::loadgen {
namespace {

using Time = std::chrono::nanoseconds;

// Nothing that is under way at this time takes so long that its end could not be counted.
constexpr Time kEndOfTime = std::chrono::seconds(static_cast<std::int64_t>(kEndOfTimeS));

// A pause may be as long as times can be.
Time after(Time begin, Time pause) { return begin + std::min(pause, Time::max() - begin); }

// Conversations of a closed loop that may end at one time, besides one of each user.
constexpr std::uint64_t kMostEndsAtOnce = 100'000;

struct Event {
  enum class Kind : std::uint8_t {
    kConversation,  // the planned one begins; open loop
    kTurn,          // of a conversation, by index
    kArrival,       // a request, by index, reaches the servers
    kCancel,        // a request, by index: its client hangs up
    kBatchDone,     // on a worker
    kQueueCheck,    // of a server
    kTransferDone,  // of a server's disk
    kLoss,          // of a worker
    kRestart,       // of a worker
    kSample,
  };
  Time time{0};
  std::uint64_t order = 0;    // of equal times, the first pushed comes first
  std::uint64_t request = 0;  // kArrival, kCancel: its number, as an index is used again
  Kind kind = Kind::kConversation;
  std::uint32_t index = 0;
};

struct IsLater {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

// The earliest on top.
class EventQueue : public std::priority_queue<Event, std::vector<Event>, IsLater> {
 public:
  // At most two: one of them is next behind the top.
  std::span<const Event> behind_top() const {
    const auto front = std::span(c).first(std::min<std::size_t>(c.size(), 3));
    return front.empty() ? front : front.subspan(1);
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
  std::uint64_t number = 0;  // of no other request
  std::uint32_t server = 0;
  SequenceId sequence = 0;         // there; 0: it has not arrived
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

// A worker as the simulator finds it.
struct WorkerPlace {
  std::uint32_t server = 0;
  WorkerId id = 0;                // there
  std::uint64_t batch_event = 0;  // order of the event of its next batch; 0: there is none
};

std::uint32_t longest_sequence(std::span<const WorkerKind> kinds) {
  std::uint32_t longest = 0;
  for (const WorkerKind& kind : kinds)
    longest = std::max(longest, kind.profile.serving.limits.longest_sequence());
  return longest;
}

class Simulator {
 public:
  Simulator(std::span<const WorkerKind> kinds, ConversationSource& source, std::vector<RequestClass> classes,
            const SimulationSettings& settings);
  Simulation run();

 private:
  void add_servers(std::span<const WorkerKind> kinds);
  std::uint64_t push(Time time, Event::Kind kind, std::uint32_t index, std::uint64_t request = 0);
  void take(const Event& event);
  bool is_current(const Event& event);
  [[noreturn]] void refuse_to_go_on(Time due) const;
  using PrefetchStep = void (SimulatedServer::*)(WorkerId) const;
  void prefetch(const Event& event, PrefetchStep step) const;
  bool may_send_at(Time time) const { return settings_.duration.count() == 0 || time < settings_.duration; }
  bool plan_conversation();
  std::uint32_t open_conversation();
  void begin_turn(std::uint32_t conversation);
  void arrive(std::uint32_t request);
  void cancel(std::uint32_t request);
  SimulatedRequest simulated_request(std::uint32_t request);
  std::shared_ptr<const CellGraph> graph_of(const OpenRequest& request) const;
  void complete_batch(std::uint32_t worker);
  void lose(std::uint32_t worker);
  void restart(std::uint32_t worker);
  void plan_loss(std::uint32_t worker);
  bool has_work() const { return conversations_.size() > 0 || has_planned_; }
  void follow(std::uint32_t server);
  void schedule(std::uint32_t server);
  void hear(const ServerEvent& event);
  void add_token(RequestRecord& record) const;
  void end_request(std::uint32_t request, Outcome outcome);
  void end_conversation(std::uint32_t conversation);
  void require_progress();
  void take_sample();
  ServerTotals sum_totals() const;
  void require_conservation() const;

  const CostProfile& profile_;  // of the first kind: overheads of clients and fronts
  ConversationSource& source_;
  SimulationSettings settings_;
  Simulation simulation_;
  std::vector<std::int32_t> blank_prompt_;  // for all workers
  Commands commands_;                       // so too
  std::vector<SimulatedServer> servers_;
  std::vector<WorkerLoad> loads_;                       // as the dispatch policy sees them
  std::vector<bool> has_check_event_, has_disk_event_;  // by server
  std::vector<std::uint32_t> first_worker_;             // of each server, among workers_
  std::vector<WorkerPlace> workers_;
  std::vector<RandomSource> losses_;  // by worker
  std::uint64_t num_requests_ = 0, num_ended_ = 0;
  Time last_end_{-1};                // of a user's conversation
  std::uint64_t num_ended_now_ = 0;  // of them, at that time
  std::unique_ptr<DispatchPolicy> dispatch_;

  EventQueue events_;
  std::uint64_t last_order_ = 0;
  Time now_{0};
  PlannedConversation planned_;  // the next to begin
  bool has_planned_ = false;
  Slab<Conversation> conversations_;
  Slab<OpenRequest> requests_;
  ServerTotals sampled_;
};

Simulator::Simulator(std::span<const WorkerKind> kinds, ConversationSource& source,
                     std::vector<RequestClass> classes, const SimulationSettings& settings)
    : profile_(kinds.front().profile),
      source_(source),
      settings_(settings),
      blank_prompt_(longest_sequence(kinds), 0),
      dispatch_(make_dispatch_policy(settings.dispatch.value_or(DispatchKind::kRoundRobin), settings.seed)) {
  simulation_.result.is_simulated = true;
  simulation_.result.classes = std::move(classes);
  add_servers(kinds);
}

void Simulator::add_servers(std::span<const WorkerKind> kinds) {
  std::vector<std::vector<const CostProfile*>> servers(settings_.dispatch ? 0 : 1);
  for (const WorkerKind& kind : kinds)
    for (std::uint32_t i = 0; i < kind.count; ++i) {
      if (settings_.dispatch) servers.emplace_back();
      servers.back().push_back(&kind.profile);
    }
  servers_.reserve(servers.size());
  for (auto& workers : servers) {
    const auto server = static_cast<std::uint32_t>(servers_.size());
    first_worker_.push_back(static_cast<std::uint32_t>(workers_.size()));
    for (WorkerId id = 0; id < workers.size(); ++id) {
      losses_.emplace_back(settings_.seed, RandomStream::kLosses, workers_.size());
      workers_.push_back({.server = server, .id = id});
    }
    RandomSource seeds(settings_.seed, RandomStream::kResiduals, server);
    servers_.emplace_back(std::move(workers), blank_prompt_, commands_,
                          SimulatedServerSettings{.says_each_token = settings_.records_gaps,
                                                  .seed = seeds.next(),
                                                  .state_strength = settings_.state_strength,
                                                  .encoder_strength = settings_.encoder_strength});
  }
  loads_.resize(servers_.size());
  has_check_event_.resize(servers_.size(), false);
  has_disk_event_.resize(servers_.size(), false);
}

Simulation Simulator::run() {
  if (settings_.num_users == 0) plan_conversation();
  for (std::uint32_t user = 0; user < settings_.num_users && plan_conversation(); ++user)
    push(now_, Event::Kind::kTurn, open_conversation());
  if (settings_.sample_interval.count() > 0) push(settings_.sample_interval, Event::Kind::kSample, 0);
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) plan_loss(worker);
  while (!events_.empty()) {
    const Event event = events_.top();
    prefetch(event, &SimulatedServer::prefetch_batch);
    events_.pop();
    now_ = event.time;
    simulation_.num_events += 1;
    for (const Event& later : events_.behind_top()) prefetch(later, &SimulatedServer::prefetch_server);
    if (!events_.empty()) prefetch(events_.top(), &SimulatedServer::prefetch_core);
    prefetch(event, &SimulatedServer::prefetch_entries);
    take(event);
    if (!events_.empty()) prefetch(events_.top(), &SimulatedServer::prefetch_worker);
  }
  require_conservation();
  simulation_.totals = sum_totals();
  if (profile_.serving.settings.foresees_lengths())
    for (const SimulatedServer& server : servers_) simulation_.predictors.push_back(server.predictor());
  return std::move(simulation_);
}

// Its order.
std::uint64_t Simulator::push(Time time, Event::Kind kind, std::uint32_t index, std::uint64_t request) {
  // Samples would be taken, second by second, until then.
  const bool is_due_for_sure = kind == Event::Kind::kConversation || kind == Event::Kind::kTurn ||
                               kind == Event::Kind::kArrival || kind == Event::Kind::kBatchDone;
  if (is_due_for_sure && time >= kEndOfTime) refuse_to_go_on(time);
  events_.push({.time = time, .order = ++last_order_, .request = request, .kind = kind, .index = index});
  return last_order_;
}

void Simulator::take(const Event& event) {
  if (event.kind <= Event::Kind::kBatchDone) {  // the rest is no work of a request
    if (!is_current(event)) return;
    if (now_ >= kEndOfTime) refuse_to_go_on(now_);
    simulation_.result.duration = std::max(simulation_.result.duration, now_);
  }
  switch (event.kind) {
    case Event::Kind::kConversation:
      begin_turn(open_conversation());
      plan_conversation();
      break;
    case Event::Kind::kTurn: begin_turn(event.index); break;
    case Event::Kind::kArrival: arrive(event.index); break;
    case Event::Kind::kCancel: cancel(event.index); break;
    case Event::Kind::kBatchDone: complete_batch(event.index); break;
    case Event::Kind::kQueueCheck:
      has_check_event_[event.index] = false;
      servers_[event.index].check_queue();
      follow(event.index);
      break;
    case Event::Kind::kTransferDone:
      has_disk_event_[event.index] = false;
      servers_[event.index].complete_transfer();
      follow(event.index);
      break;
    case Event::Kind::kLoss: lose(event.index); break;
    case Event::Kind::kRestart: restart(event.index); break;
    case Event::Kind::kSample: take_sample(); break;
  }
}

// A request may have ended before it arrives, or before its client would hang up; batches of a
// worker that was lost never end.
bool Simulator::is_current(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kArrival:
    case Event::Kind::kCancel: return requests_[event.index].number == event.request;
    case Event::Kind::kBatchDone: return workers_[event.index].batch_event == event.order;
    default: return true;
  }
}

void Simulator::refuse_to_go_on(Time due) const {
  throw std::runtime_error("simulation: expected an end within " + std::to_string(in_seconds(kEndOfTime)) +
                           " s, got work at " + std::to_string(in_seconds(due)) + " s, after " +
                           std::to_string(sum_totals().num_batches) +
                           " batches: costs of the profile, or pauses of the plan, are too long");
}

// Loads what a batch's end will touch: with many servers their state has left the processor's caches.
void Simulator::prefetch(const Event& event, PrefetchStep step) const {
  if (event.kind != Event::Kind::kBatchDone) return;
  const WorkerPlace& worker = workers_[event.index];
  (servers_[worker.server].*step)(worker.id);
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
  // Of tokens that nothing reads there are none.
  const ServingSettings& settings = profile_.serving.settings;
  if (!profile_.cells && (settings.keeps_prefixes() || settings.foresees_lengths())) {
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
  if (turn.stops_reading_after)
    throw std::runtime_error("simulation: expected clients that read, got one of conversation " +
                             std::to_string(conversation.plan.number) + " that stops");
  OpenRequest request;
  request.number = ++num_requests_;
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
  const std::uint32_t added = requests_.add(std::move(request));
  push(arrival, Event::Kind::kArrival, added, num_requests_);
  if (turn.cancelled_after)
    push(after(now_, *turn.cancelled_after), Event::Kind::kCancel, added, num_requests_);
}

void Simulator::arrive(std::uint32_t index) {
  const SimulatedRequest request = simulated_request(index);
  const auto server = static_cast<std::uint32_t>(
      dispatch_->choose({.prompt_tokens = request.prompt_tokens, .max_tokens = request.max_tokens}, loads_));
  requests_[index].server = server;
  requests_[index].sequence = servers_[server].admit(now_, request);
  follow(server);
}

// The server hears of it at once; what it has computed until then stays computed.
void Simulator::cancel(std::uint32_t index) {
  const OpenRequest& request = requests_[index];
  const std::uint32_t server = request.server;
  const SequenceId sequence = request.sequence;
  end_request(index, Outcome::kCancelled);
  if (sequence == 0) return;
  servers_[server].cancel(now_, sequence);
  follow(server);
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
      .tokens = nullptr,
      .graph = graph_of(open)};
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

// Null: the request is no tree.
std::shared_ptr<const CellGraph> Simulator::graph_of(const OpenRequest& request) const {
  const RequestRecord& record = request.record;
  const TreeShape shape = simulation_.result.classes[record.request_class].trees;
  if (shape == TreeShape::kNone) return nullptr;
  auto graph = std::make_shared<CellGraph>();
  for (std::uint32_t word = 0; word < record.prompt_tokens; ++word)
    graph->add({.cell = 0, .token = 0, .is_result = true}, {});
  RandomSource random(settings_.seed, RandomStream::kTrees, record.conversation);
  for (const auto& children : inner_nodes(shape, record.prompt_tokens, random))
    graph->add({.cell = 1, .is_result = true}, children);
  graph->finish();
  return graph;
}

void Simulator::complete_batch(std::uint32_t index) {
  WorkerPlace& worker = workers_[index];
  worker.batch_event = 0;
  servers_[worker.server].complete_batch(worker.id);
  follow(worker.server);
}

void Simulator::plan_loss(std::uint32_t worker) {
  const auto mean = static_cast<double>(settings_.losses.mean_time.count());
  if (mean <= 0) return;
  push(now_ + Time(std::llround(mean * losses_[worker].exponential())), Event::Kind::kLoss, worker);
}

void Simulator::lose(std::uint32_t index) {
  if (!has_work()) return;  // nothing is left to be disturbed
  WorkerPlace& worker = workers_[index];
  worker.batch_event = 0;
  servers_[worker.server].lose(now_, worker.id);
  push(now_ + settings_.losses.restart_time, Event::Kind::kRestart, index);
  follow(worker.server);
}

void Simulator::restart(std::uint32_t index) {
  const WorkerPlace& worker = workers_[index];
  servers_[worker.server].restart(now_, worker.id);
  plan_loss(index);
  follow(worker.server);
}

// Hears what a server has to say and sees when it will be needed again.
void Simulator::follow(std::uint32_t server) {
  auto& events = servers_[server].events();
  for (const ServerEvent& event : events) hear(event);
  events.clear();
  loads_[server] = servers_[server].load();
  schedule(server);
}

void Simulator::schedule(std::uint32_t index) {
  const SimulatedServer& server = servers_[index];
  for (WorkerId id = 0; id < server.num_workers(); ++id) {
    const std::uint32_t worker = first_worker_[index] + id;
    const auto done = server.next_done(id);
    if (done && workers_[worker].batch_event == 0)
      workers_[worker].batch_event = push(*done, Event::Kind::kBatchDone, worker);
  }
  const auto check = server.next_check();
  if (check && !has_check_event_[index]) {
    has_check_event_[index] = true;
    push(*check, Event::Kind::kQueueCheck, index);
  }
  const auto transfer = server.next_transfer();
  if (transfer && !has_disk_event_[index]) {
    has_disk_event_[index] = true;
    push(*transfer, Event::Kind::kTransferDone, index);
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
    case ServerEvent::Kind::kToken: add_token(record); break;
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
    case ServerEvent::Kind::kFailed:
      record.status = 500;
      record.error = "workers were lost with it, once too often";
      end_request(index, Outcome::kBroken);
      break;
  }
}

void Simulator::add_token(RequestRecord& record) const {
  record.output_tokens += 1;
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
  num_ended_ += 1;
  simulation_.result.duration = std::max(simulation_.result.duration, finished);
  simulation_.result.records.push_back(std::move(record));
  if (outcome == Outcome::kCompleted && conversation.turn < conversation.plan.turns.size()) {
    const Time next = after(finished, conversation.plan.turns[conversation.turn].think_time);
    if (may_send_at(next)) {
      push(next, Event::Kind::kTurn, conversation_index);
      return;
    }
  }
  end_conversation(conversation_index);
}

void Simulator::end_conversation(std::uint32_t index) {
  conversations_.remove(index);
  if (settings_.num_users == 0 || !plan_conversation()) return;
  require_progress();
  const Time next = after(now_, planned_.turns.at(0).think_time);
  if (may_send_at(next)) push(next, Event::Kind::kTurn, open_conversation());
}

// Clients that hang up at once, or are refused at once, and begin again would do so for ever.
void Simulator::require_progress() {
  num_ended_now_ = now_ == last_end_ ? num_ended_now_ + 1 : 1;
  last_end_ = now_;
  if (num_ended_now_ <= settings_.num_users + kMostEndsAtOnce) return;
  throw std::runtime_error("simulation: expected users whose conversations take time, or a pause, got " +
                           std::to_string(num_ended_now_) + " that ended at " +
                           std::to_string(in_seconds(now_)) + " s, each cancelled or refused at once");
}

void Simulator::take_sample() {
  const ServerTotals totals = sum_totals();
  ServerSample sample{.time = now_};
  for (const SimulatedServer& server : servers_) {
    sample.num_running += server.load().num_running;
    sample.num_waiting += server.load().num_waiting;
    const PageCounts pages = server.page_counts();
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
  if (has_work()) push(now_ + settings_.sample_interval, Event::Kind::kSample, 0);
}

ServerTotals Simulator::sum_totals() const {
  ServerTotals sum;
  for (const SimulatedServer& server : servers_) sum += server.totals();
  return sum;
}

// A fault of ours, which no figure of the simulation should hide.
void Simulator::require_conservation() const {
  const auto require = [](bool is_so, const std::string& problem) {
    if (!is_so) throw std::runtime_error("simulation: it does not add up: " + problem);
  };
  require(num_requests_ == num_ended_ && requests_.size() == 0,
          std::to_string(num_requests_) + " requests were sent and " + std::to_string(num_ended_) + " ended");
  for (const SimulatedServer& server : servers_) {
    const std::string problem = server.leftovers();
    require(problem.empty(), problem);
  }
}

// Trees are for models of trees, which take nothing else.
void require_fitting(std::span<const WorkerKind> kinds, const std::vector<RequestClass>& classes) {
  for (const WorkerKind& kind : kinds) {
    const bool takes_trees = kind.profile.cells && kind.profile.cells->graphs == GraphKind::kTree;
    for (const RequestClass& request_class : classes)
      if ((request_class.trees != TreeShape::kNone) != takes_trees)
        throw std::runtime_error("simulation: class '" + request_class.name + "': expected " +
                                 (takes_trees ? "trees" : "no trees") + " for a profile of " +
                                 kind.profile.model);
  }
}

// Pages and host pages belong to all workers of a server.
void require_alike(std::span<const WorkerKind> kinds) {
  const ProfiledServer& first = kinds.front().profile.serving;
  for (const WorkerKind& kind : kinds)
    if (kind.profile.serving.page_size != first.page_size)
      throw std::runtime_error("simulation: expected workers of one server with pages of " +
                               std::to_string(first.page_size) + " tokens, got " +
                               std::to_string(kind.profile.serving.page_size));
}

}  // namespace

Simulation simulate(std::span<const WorkerKind> kinds, ConversationSource& source,
                    std::vector<RequestClass> classes, const SimulationSettings& settings) {
  std::uint64_t num_workers = 0;
  for (const WorkerKind& kind : kinds) {
    num_workers += kind.count;
    if (const auto problem = profile_problem(kind.profile); !problem.empty())
      throw std::runtime_error("cost profile: " + problem);
  }
  if (num_workers == 0) throw std::runtime_error("simulation: expected at least one worker, got 0");
  for (const auto& strength : {settings.state_strength, settings.encoder_strength})
    if (strength && !(*strength >= 0 && *strength <= 1))
      throw std::runtime_error("simulation: expected a strength of states or vectors from 0 to 1, got " +
                               std::to_string(*strength));
  if (!settings.dispatch) require_alike(kinds);
  require_fitting(kinds, classes);
  return Simulator(kinds, source, std::move(classes), settings).run();
}

Simulation simulate(const CostProfile& profile, ConversationSource& source, std::vector<RequestClass> classes,
                    const SimulationSettings& settings) {
  const WorkerKind kind{.profile = profile, .count = settings.num_workers};
  return simulate(std::span(&kind, 1), source, std::move(classes), settings);
}

}  // namespace troupe::loadgen
