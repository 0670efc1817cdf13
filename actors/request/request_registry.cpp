// SPDX-License-Identifier: Apache-2.0
#include "actors/request/request_registry.hpp"

#include <utility>

#include "actors/actor_rules.hpp"

namespace troupe {

void RequestRegistry::add(RequestId id, RequestActor request) {
  const std::lock_guard lock(mutex_);
  requests_.emplace(id, std::move(request));
}

void RequestRegistry::remove(RequestId id) {
  RequestActor last_reference;  // released after the lock
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  last_reference = std::move(found->second);
  requests_.erase(found);
  if (requests_.empty()) is_empty_.notify_all();
}

void RequestRegistry::cancel(RequestId id) const {
  if (const auto request = find(id)) send_urgent(request, CancelRequest{});
}

void RequestRegistry::resume(RequestId id) const {
  if (const auto request = find(id)) send_urgent(request, ResumeRequest{});
}

void RequestRegistry::fail(RequestId id, const ApiError& error) const {
  if (const auto request = find(id)) send_urgent(request, RequestFailed{error});
}

void RequestRegistry::cancel_all() const {
  for (const auto& request : all()) send_urgent(request, CancelRequest{});
}

void RequestRegistry::fail_all(const ApiError& error) const {
  for (const auto& request : all()) send_urgent(request, RequestFailed{error});
}

std::size_t RequestRegistry::size() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

bool RequestRegistry::wait_until_empty(std::chrono::milliseconds deadline) const {
  std::unique_lock lock(mutex_);
  return is_empty_.wait_for(lock, deadline, [this] { return requests_.empty(); });
}

RequestActor RequestRegistry::find(RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(id);
  return found == requests_.end() ? RequestActor{} : found->second;
}

std::vector<RequestActor> RequestRegistry::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<RequestActor> requests;
  requests.reserve(requests_.size());
  for (const auto& [id, request] : requests_) requests.push_back(request);
  return requests;
}

}  // namespace troupe
