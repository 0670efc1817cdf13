// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/load_driver.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <memory>
#include <unordered_set>
#include <utility>

#include "loadgen/client/http/completion_record.hpp"
#include "loadgen/client/realtime_thread.hpp"

namespace troupe::loadgen {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// A user of a closed loop whose request failed does not come back at once.
constexpr std::chrono::milliseconds kPauseAfterFailure{100};

// A conversation under way.
struct Session {
  Session(asio::io_context& io, PlannedConversation plan) : dialogue(std::move(plan)), timer(io) {}

  std::size_t turns_left() const { return dialogue.plan().turns.size() - dialogue.turn(); }

  Dialogue dialogue;
  nanoseconds intended{0};   // of its next turn
  std::string body;          // of that turn's request
  asio::steady_timer timer;  // until then
};
using SessionPointer = std::shared_ptr<Session>;

// A session is either waiting (for its intended time) or running (its request
// is with the client). The run is over when there are none, and no arrivals.
class LoadDriver {
 public:
  LoadDriver(const LoadSettings& settings, const std::vector<RequestClass>& classes,
             ConversationSource& source, const TurnPrompts& prompts, const OnStatus& on_status)
      : settings_(settings),
        classes_(classes),
        source_(source),
        prompts_(prompts),
        on_status_(on_status),
        client_(io_, settings.client),
        end_(io_),
        status_(io_),
        signals_(io_) {}

  LoadRun run() {
    auto first = next_session();
    run_.begin = steady_clock::now();
    if (settings_.stops_on_signals) watch_signals();
    if (settings_.duration > nanoseconds(0)) end_sending_at(settings_.duration);
    if (on_status_) report_status();
    if (settings_.num_users > 0)
      start_users(std::move(first));
    else if (first)
      schedule(first, first->dialogue.plan().start);
    end_if_done();
    io_.run();
    finish_result();
    return std::move(run_);
  }

 private:
  bool is_open_loop() const { return settings_.num_users == 0; }
  nanoseconds now() const { return steady_clock::now() - run_.begin; }
  void warn(std::string text) { run_.result.warnings.push_back(std::move(text)); }

  // Null when the plan has ended. Its first request is ready to be sent.
  SessionPointer next_session() {
    PlannedConversation plan;
    try {
      if (has_plan_ended_ || !source_.next(plan)) {
        has_plan_ended_ = true;
        return nullptr;
      }
    } catch (const std::exception& error) {
      if (run_.begin == SteadyTime{}) throw;
      warn(std::string("the plan broke off: ") + error.what());
      has_plan_ended_ = true;
      return nullptr;
    }
    auto session = std::make_shared<Session>(io_, std::move(plan));
    prepare(*session);
    return session;
  }

  // Ahead of its time, so that making a long prompt delays nothing.
  void prepare(Session& session) {
    auto& dialogue = session.dialogue;
    const auto& request_class = classes_.at(dialogue.plan().request_class);
    session.body = dialogue.next_body(settings_.endpoint, settings_.sampling, request_class, prompts_,
                                      settings_.tells_lengths);
  }

  void start_users(SessionPointer first) {
    for (std::uint32_t user = 0; user < settings_.num_users; ++user) {
      if (const auto session = user == 0 ? first : next_session()) {
        session->intended = now();  // nobody waits for a user's first request
        send(session);
      }
    }
  }

  void schedule(const SessionPointer& session, nanoseconds intended) {
    session->intended = intended;
    waiting_.insert(session);
    session->timer.expires_at(run_.begin + intended);
    session->timer.async_wait([this, session](error_code) {
      if (waiting_.erase(session) == 0) return;  // sending has ended
      send(session);
      if (!is_open_loop() || session->dialogue.turn() > 0) return;
      if (const auto next = next_session()) schedule(next, next->dialogue.plan().start);
    });
  }

  void send(const SessionPointer& session) {
    window_.note_sent();
    ++num_running_;
    const auto& dialogue = session->dialogue;
    client_.send({.path = std::string(endpoint_path(settings_.endpoint)),
                  .body = std::move(session->body),
                  .id = request_id(dialogue.plan().number, static_cast<std::uint32_t>(dialogue.turn())),
                  .is_streamed = settings_.sampling.is_streamed,
                  .impatience = impatience_of(*session)},
                 [this, session](Completion completion) { on_done(session, std::move(completion)); });
  }

  Impatience impatience_of(const Session& session) const {
    const PlannedTurn& turn = session.dialogue.planned_turn();
    const auto at = [&](const std::optional<nanoseconds>& after) {
      return after ? std::optional(run_.begin + session.intended + *after) : std::nullopt;
    };
    return {.hangs_up_at = at(turn.cancelled_after), .stops_reading_at = at(turn.stops_reading_after)};
  }

  void on_done(const SessionPointer& session, Completion completion) {
    --num_running_;
    auto record = make_record(session->dialogue, session->intended, completion, run_.begin);
    start_delays_.push_back(start_delay(session->intended, completion, run_.begin));
    const auto finished = record.finished;
    const bool is_completed = record.outcome == Outcome::kCompleted;
    const bool is_cancelled = record.outcome == Outcome::kCancelled;
    note(std::move(record));
    if (is_completed) {
      auto& content = completion.answer.content;
      session->dialogue.add_answer(std::move(content.text), std::move(content.response_id));
      if (!session->dialogue.is_over())
        continue_session(session, finished);
      else
        start_next(finished);
    } else {
      if (is_sending_ && !is_cancelled) num_lost_turns_ += session->turns_left() - 1;
      start_next(is_cancelled ? finished : finished + kPauseAfterFailure);
    }
    end_if_done();
  }

  void continue_session(const SessionPointer& session, nanoseconds finished) {
    if (!is_sending_) return;
    prepare(*session);
    schedule(session, finished + session->dialogue.planned_turn().think_time);
  }

  // The user of a closed loop whose conversation is over begins another.
  void start_next(nanoseconds free_at) {
    if (is_open_loop() || !is_sending_) return;
    if (const auto next = next_session()) schedule(next, free_at + next->dialogue.planned_turn().think_time);
  }

  void note(RequestRecord record) {
    window_.note_end(record);
    num_unreachable_ = record.outcome == Outcome::kUnreachable ? num_unreachable_ + 1 : 0;
    run_.result.records.push_back(std::move(record));
    if (num_unreachable_ < settings_.max_unreachable_in_a_row || !is_sending_) return;
    run_.was_given_up = true;
    warn("given up: " + std::to_string(num_unreachable_) + " requests in a row did not reach " +
         settings_.client.server.url() + ", the last one because: " + run_.result.records.back().error);
    stop_sending();
    abandon();
  }

  void watch_signals() {
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    signals_.async_wait([this](error_code error, int) {
      if (error) return;
      run_.was_interrupted = true;
      warn("interrupted: what had no answer yet counts as unfinished");
      stop_sending();
      abandon();
    });
  }

  void end_sending_at(nanoseconds time) {
    end_.expires_at(run_.begin + time);
    end_.async_wait([this, time](error_code error) {
      if (error) return;
      stop_sending();
      end_of_sending_ = time;
      end_.expires_after(settings_.drain_grace);
      end_.async_wait([this](error_code late) {
        if (!late) abandon();
      });
    });
  }

  void stop_sending() {
    is_sending_ = false;
    end_of_sending_ = now();
    for (const auto& session : std::exchange(waiting_, {})) session->timer.cancel();
    end_if_done();
  }

  // Posted: the client may be telling us of an answer right now.
  void abandon() {
    asio::post(io_, [this] { client_.abandon(); });
  }

  void report_status() {
    status_.expires_after(settings_.status_period);
    status_.async_wait([this](error_code error) {
      if (error) return;
      on_status_(window_.status(now()));
      report_status();
    });
  }

  void end_if_done() {
    if (waiting_.empty() && num_running_ == 0) io_.stop();
  }

  void finish_result() {
    auto& result = run_.result;
    result.classes = classes_;
    for (const auto& record : result.records) result.duration = std::max(result.duration, record.finished);
    result.measured_from = settings_.warm_up;
    const auto end_of_plan = settings_.plan_fills_duration ? settings_.duration : result.duration;
    result.measured_until = end_of_sending_.value_or(end_of_plan) - settings_.cool_down;
    if (num_lost_turns_ > 0)
      warn(std::to_string(num_lost_turns_) + " later turns were not sent because an earlier one had failed");
    if (client_.max_waiting() > 0)
      warn("up to " + std::to_string(client_.max_waiting()) + " requests at once waited for one of the " +
           std::to_string(settings_.client.max_connections) +
           " connections; the wait counts as client delay");
    if (start_delays_.empty()) return;
    const auto rank = start_delays_.begin() + static_cast<std::ptrdiff_t>(start_delays_.size() * 99 / 100);
    std::nth_element(start_delays_.begin(), rank, start_delays_.end());
    run_.start_delay_p99 = *rank;
  }

  const LoadSettings& settings_;
  const std::vector<RequestClass>& classes_;
  ConversationSource& source_;
  const TurnPrompts& prompts_;
  const OnStatus& on_status_;

  LoadRun run_;
  LiveWindow window_;
  std::vector<nanoseconds> start_delays_;
  asio::io_context io_{1};
  CompletionClient client_;
  asio::steady_timer end_;
  asio::steady_timer status_;
  asio::signal_set signals_;

  bool is_sending_ = true;
  bool has_plan_ended_ = false;
  std::optional<nanoseconds> end_of_sending_;  // none: the plan ended before
  std::unordered_set<SessionPointer> waiting_;
  std::size_t num_running_ = 0;
  std::size_t num_unreachable_ = 0;  // in a row
  std::size_t num_lost_turns_ = 0;
};

}  // namespace

LoadRun run_load(const LoadSettings& settings, const std::vector<RequestClass>& classes,
                 ConversationSource& source, const TurnPrompts& prompts, const OnStatus& on_status) {
  const RealtimeThread realtime;
  auto run = LoadDriver(settings, classes, source, prompts, on_status).run();
  run.was_realtime = realtime.is_realtime();
  return run;
}

}  // namespace troupe::loadgen
