// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/host_book.hpp"

#include "policy/pages/device_book.hpp"

namespace troupe {

HostBook::HostBook(const ServingSettings& settings, std::uint32_t num_pages)
    : pages_(num_pages), free_(all_free(num_pages)), all_(settings), backed_(settings) {}

// It would come before or after all that touch the page now.
bool HostBook::may_store(WorkerIndex worker, std::uint32_t page) const {
  const auto& users = pages_[page].users;
  return std::all_of(users.begin(), users.end(), [&](const User& user) { return user.worker == worker; });
}

// To the worker that is storing it, it is there.
bool HostBook::may_load(WorkerIndex worker, std::uint32_t page) const {
  return is_settled(page) || may_store(worker, page);
}

void HostBook::begin(WorkerIndex worker, const PageCopy& copy) {
  Page& page = pages_[copy.host_page];
  page.num_stores += copy.is_store() ? 1 : 0;
  auto user = find_user(page, worker);
  if (user == page.users.end()) user = page.users.insert(user, {.worker = worker, .num_copies = 0});
  user->num_copies += 1;
}

bool HostBook::end(WorkerIndex worker, const PageCopy& copy) {
  Page& page = pages_.at(copy.host_page);
  const auto user = find_user(page, worker);
  if (user == page.users.end()) return false;
  if (--user->num_copies == 0) page.users.erase(user);
  if (!copy.is_store() || page.num_stores == 0) return false;
  return --page.num_stores == 0;
}

std::vector<NodeId> HostBook::drop_copies_of(WorkerIndex worker) {
  std::vector<NodeId> lost;
  for (Page& page : pages_) {
    const auto user = find_user(page, worker);
    if (user == page.users.end()) continue;
    page.users.erase(user);
    if (page.num_stores > 0 && page.owner != kNoNode) lost.push_back(page.owner);
    page.num_stores = 0;
  }
  return lost;
}

std::vector<HostBook::User>::iterator HostBook::find_user(Page& page, WorkerIndex worker) {
  return std::find_if(page.users.begin(), page.users.end(),
                      [&](const User& user) { return user.worker == worker; });
}

void HostBook::enqueue(const EvictionEntry& entry, bool is_backed) {
  all_.insert(entry);
  if (is_backed) backed_.insert(entry);
}

void HostBook::dequeue(NodeId node) {
  for (EvictionQueue* queue : {&all_, &backed_})
    if (queue->contains(node)) queue->erase(node);
}

void HostBook::change_worth(NodeId node, double worth) {
  for (EvictionQueue* queue : {&all_, &backed_})
    if (queue->contains(node)) queue->change_worth(node, worth);
}

bool HostBook::have_copies_an_order() const {
  return std::all_of(pages_.begin(), pages_.end(), [](const Page& page) {
    return page.num_stores == 0 || (page.users.size() == 1 && page.users[0].num_copies >= page.num_stores);
  });
}

}  // namespace troupe
