// SPDX-License-Identifier: Apache-2.0
#include "scripted_engine.hpp"

#include <chrono>

#include "tests/support/eventually.hpp"

namespace troupe::test {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<const Engine*, std::unique_ptr<EngineScript>> scripts;
};
Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

EngineScript& script_of(const Engine& engine) {
  const std::lock_guard lock(registry().mutex);
  auto& script = registry().scripts[&engine];
  if (!script) script = std::make_unique<EngineScript>();
  return *script;
}

bool EngineScript::wait_until(const std::function<bool()>& condition) {
  return eventually([&] {
    const std::lock_guard lock(mutex_);
    return condition();
  });
}

RequestId EngineScript::wait_for_request(RequestId n) {
  return wait_until([&] { return requests_.size() >= n; }) ? n : 0;
}
bool EngineScript::wait_until_cancelled(RequestId id) {
  return wait_until([&] { return requests_.at(id).is_cancelled; });
}
bool EngineScript::wait_until_resumed(RequestId id) {
  return wait_until([&] { return requests_.at(id).num_resumes > 0; });
}

void EngineScript::deliver(RequestId id, ResponseEvent event) {
  std::shared_ptr<ResponseSink> sink;
  {
    const std::lock_guard lock(mutex_);
    sink = requests_.at(id).sink;
    if (is_terminal(event)) {
      ended_[id] = true;
      requests_.at(id).sink.reset();
      requests_.at(id).request.tab.reset();
      requests_.at(id).embedding.tab.reset();
    }
  }
  if (sink) sink->deliver(std::move(event));
}

void EngineScript::answer(RequestId id, const std::vector<std::string>& texts, FinishReason reason) {
  Usage usage{.prompt_tokens = 5};
  deliver(id, Accepted{.prompt_tokens = 5});
  for (const auto& text : texts) {
    ++usage.completion_tokens;
    deliver(id, TextDelta{.text = text, .usage = usage});
  }
  deliver(id, Finished{.reason = reason, .stop_string = {}, .stop_token = {}, .usage = usage});
}

EngineScript::Submitted EngineScript::submitted(RequestId id) {
  const std::lock_guard lock(mutex_);
  return requests_.at(id);
}
std::size_t EngineScript::num_submitted() {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}
std::size_t EngineScript::num_unfinished() {
  const std::lock_guard lock(mutex_);
  std::size_t num = 0;
  for (const auto& [id, request] : requests_) num += !request.is_cancelled && !ended_[id] ? 1 : 0;
  return num;
}

RequestId EngineScript::submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink) {
  return add({.request = std::move(request), .embedding = {}, .sink = std::move(sink)});
}
RequestId EngineScript::embed(EmbeddingRequest request, std::shared_ptr<ResponseSink> sink) {
  return add({.request = {}, .embedding = std::move(request), .sink = std::move(sink)});
}
RequestId EngineScript::add(Submitted submitted) {
  RequestId id = 0;
  std::function<void(RequestId)> then;
  {
    const std::lock_guard lock(mutex_);
    id = requests_.size() + 1;
    requests_[id] = std::move(submitted);
    // A test that has seen this request may set another.
    then = on_submit;
  }
  if (then) then(id);
  return id;
}
void EngineScript::end_journal(std::string response) {
  const std::lock_guard lock(mutex_);
  ended_journals_.insert(std::move(response));
}

bool EngineScript::has_ended_journal(const std::string& response) {
  const std::lock_guard lock(mutex_);
  return ended_journals_.contains(response);
}

void EngineScript::look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink) {
  const std::lock_guard lock(mutex_);
  const auto found = stored.find(query.response);
  if (found == stored.end() || found->second.tenant != query.tenant)
    return sink->deliver(Failed{{.kind = ApiErrorKind::kResponseNotFound, .message = "not found"}});
  StoreAnswer answer;
  if (query.kind == StoreQuery::Kind::kRemove) {
    stored.erase(found);
  } else {
    answer.response = std::make_shared<const StoredResponse>(found->second);
  }
  sink->deliver(answer);
}
void EngineScript::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  requests_.at(id).is_cancelled = true;
}
void EngineScript::resume(RequestId id) {
  const std::lock_guard lock(mutex_);
  ++requests_.at(id).num_resumes;
}

}  // namespace troupe::test

namespace troupe {

using test::script_of;

struct Engine::Implementation {};

Engine::Engine(ServedModel, DeviceFactory, EngineOptions, Metrics&, Tracer*) { script_of(*this); }
Engine::~Engine() {
  const std::lock_guard lock(test::registry().mutex);
  test::registry().scripts.erase(this);
}
RequestId Engine::submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink) {
  return script_of(*this).submit(std::move(request), std::move(sink));
}
RequestId Engine::embed(EmbeddingRequest request, std::shared_ptr<ResponseSink> sink) {
  return script_of(*this).embed(std::move(request), std::move(sink));
}
void Engine::end_journal(std::string response) { script_of(*this).end_journal(std::move(response)); }

void Engine::look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink) {
  script_of(*this).look_up(std::move(query), std::move(sink));
}
void Engine::cancel(RequestId id) { script_of(*this).cancel(id); }
void Engine::resume(RequestId id) { script_of(*this).resume(id); }
EngineStatus Engine::status() const { return script_of(*this).status; }
void Engine::drain(std::chrono::milliseconds) {}

}  // namespace troupe
