// SPDX-License-Identifier: Apache-2.0
#include "actors/actor_rules.hpp"

#include <exception>

#include <caf/error.hpp>
#include <caf/logger.hpp>
#include <caf/message_view.hpp>
#include <caf/result.hpp>
#include <caf/sec.hpp>

#include "telemetry/log.hpp"

namespace troupe {

void ActorCensus::enter() {
  const std::lock_guard lock(mutex_);
  count_ += 1;
}

void ActorCensus::leave() {
  const std::lock_guard lock(mutex_);
  count_ -= 1;
  if (count_ == 0) is_empty_.notify_all();
}

std::size_t ActorCensus::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool ActorCensus::wait_until_empty(std::chrono::milliseconds deadline) const {
  std::unique_lock lock(mutex_);
  return is_empty_.wait_for(lock, deadline, [this] { return count_ == 0; });
}

CensusEntry::CensusEntry(std::shared_ptr<ActorCensus> census) : census_(std::move(census)) {
  census_->enter();
}

CensusEntry::~CensusEntry() { census_->leave(); }

SpawnGuard::~SpawnGuard() { caf::logger::set_current_actor_system(nullptr); }

void follow_rules(caf::scheduled_actor* self, Environment environment) {
  self->set_default_handler(
      [environment](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
        environment->metrics.unexpected_messages.add();
        return caf::sec::unexpected_message;
      });
  self->set_error_handler(
      [environment](caf::scheduled_actor*, caf::error&) { environment->metrics.unexpected_messages.add(); });
  self->set_down_handler([environment](caf::scheduled_actor*, caf::down_msg&) {
    environment->metrics.unexpected_messages.add();
  });
  self->set_exit_handler(
      [](caf::scheduled_actor* actor, caf::exit_msg& message) { actor->quit(message.reason); });
  self->set_exception_handler(
      [environment](caf::scheduled_actor* actor, std::exception_ptr& exception) -> caf::error {
        environment->metrics.actor_failures.add();
        try {
          std::rethrow_exception(exception);
        } catch (const std::exception& error) {
          log(LogLevel::kError, "actor failed", {{"actor", actor->name()}, {"reason", error.what()}});
        } catch (...) {
          log(LogLevel::kError, "actor failed", {{"actor", actor->name()}});
        }
        return caf::sec::runtime_error;
      });
}

}  // namespace troupe
