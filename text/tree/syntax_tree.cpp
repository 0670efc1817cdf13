// SPDX-License-Identifier: Apache-2.0
#include "text/tree/syntax_tree.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "telemetry/json_depth.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxWordBytes = 256;

[[noreturn]] void refuse(const std::string& reason) {
  throw TreeError("The input is no tree: " + reason + ".");
}

std::string at(std::size_t byte) { return " at byte " + std::to_string(byte); }

std::uint32_t add_node(SyntaxTree& tree) {
  if (tree.nodes.size() == SyntaxTree::kMaxNodes)
    refuse("it has more than " + std::to_string(SyntaxTree::kMaxNodes) + " nodes");
  tree.nodes.emplace_back();
  return static_cast<std::uint32_t>(tree.nodes.size() - 1);
}

void check_word(const std::string& word, const std::string& where) {
  if (word.size() > kMaxWordBytes)
    refuse("the word" + where + " has " + std::to_string(word.size()) + " bytes, at most " +
           std::to_string(kMaxWordBytes) + " are possible");
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string unescaped(std::string_view word) {
  if (word == "-LRB-") return "(";
  if (word == "-RRB-") return ")";
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool escapes = word[i] == '\\' && i + 1 < word.size() && (word[i + 1] == '/' || word[i + 1] == '*');
    if (!escapes) text += word[i];
  }
  return text;
}

// "(" opens a node, the first word behind it is its label, one more its own word.
class BracketParser {
 public:
  explicit BracketParser(std::string_view text) : text_(text) {}

  SyntaxTree parse() && {
    while (skip_spaces()) {
      if (is_complete_) refuse("there is more behind its end" + at(place_));
      if (text_[place_] == '(') {
        open();
      } else if (text_[place_] == ')') {
        close();
      } else {
        take_word();
      }
    }
    if (!is_complete_) refuse(std::to_string(open_.size()) + " brackets are not closed");
    drop_empty_root();
    return std::move(tree_);
  }

 private:
  struct Open {
    std::uint32_t node = 0;
    bool has_label = false;
    std::size_t begin = 0;
  };

  bool skip_spaces() {
    while (place_ < text_.size() && is_space(text_[place_])) ++place_;
    return place_ < text_.size();
  }

  void open() {
    if (!open_.empty() && !tree_.nodes[open_.back().node].word.empty())
      refuse("a node has a word and children" + at(place_));
    const std::uint32_t node = add_node(tree_);
    if (!open_.empty()) tree_.nodes[open_.back().node].children.push_back(node);
    open_.push_back({.node = node, .has_label = false, .begin = place_++});
  }

  void close() {
    if (open_.empty()) refuse("a bracket is closed that was not opened" + at(place_));
    const SyntaxTree::Node& node = tree_.nodes[open_.back().node];
    if (node.word.empty() && node.children.empty())
      refuse("a node has neither a word nor children" + at(open_.back().begin));
    open_.pop_back();
    is_complete_ = open_.empty();
    ++place_;
  }

  void take_word() {
    const std::size_t begin = place_;
    while (place_ < text_.size() && !is_space(text_[place_]) && text_[place_] != '(' && text_[place_] != ')')
      ++place_;
    if (open_.empty()) refuse("\"(\" was expected" + at(begin));
    SyntaxTree::Node& node = tree_.nodes[open_.back().node];
    if (!std::exchange(open_.back().has_label, true) && node.children.empty()) return;
    if (!node.children.empty()) refuse("a node has children and a word" + at(begin));
    if (!node.word.empty()) refuse("a node has two words" + at(begin));
    node.word = unescaped(text_.substr(begin, place_ - begin));
    check_word(node.word, at(begin));
    if (node.word.empty()) refuse("a word is empty" + at(begin));
  }

  // Treebanks put a bracket without a label around each tree.
  void drop_empty_root() {
    const bool is_empty = text_.find_first_not_of(" \t\r\n(") != std::string_view::npos &&
                          tree_.nodes.front().children.size() == 1 && !has_root_label();
    if (!is_empty) return;
    tree_.nodes.erase(tree_.nodes.begin());
    for (SyntaxTree::Node& node : tree_.nodes)
      for (std::uint32_t& child : node.children) --child;
  }

  bool has_root_label() const {
    std::size_t place = text_.find('(') + 1;
    while (place < text_.size() && is_space(text_[place])) ++place;
    return text_[place] != '(';
  }

  std::string_view text_;
  std::size_t place_ = 0;
  SyntaxTree tree_;
  std::vector<Open> open_;
  bool is_complete_ = false;
};

const json* member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string read_word(const json& object, const std::string& where) {
  const json* word = member(object, "word");
  if (word == nullptr) return {};
  if (!word->is_string() || word->get_ref<const std::string&>().empty())
    refuse("\"word\"" + where + " is not a string with a word in it");
  check_word(word->get_ref<const std::string&>(), where);
  return word->get<std::string>();
}

const json::array_t* read_children(const json& object, const std::string& where) {
  const json* children = member(object, "children");
  if (children == nullptr) return nullptr;
  if (!children->is_array()) refuse("\"children\"" + where + " is not a list");
  return &children->get_ref<const json::array_t&>();
}

SyntaxTree read_nested(const json& document) {
  SyntaxTree tree;
  struct Pending {
    const json* object = nullptr;
    std::optional<std::uint32_t> parent;
  };
  std::vector<Pending> pending = {{&document, std::nullopt}};
  while (!pending.empty()) {
    const Pending next = pending.back();
    pending.pop_back();
    const std::uint32_t index = add_node(tree);
    const std::string where = " of node " + std::to_string(index);
    if (!next.object->is_object()) refuse("node " + std::to_string(index) + " is not an object");
    if (next.parent) tree.nodes[*next.parent].children.push_back(index);
    tree.nodes[index].word = read_word(*next.object, where);
    const json::array_t* children = read_children(*next.object, where);
    if (tree.nodes[index].word.empty() && (children == nullptr || children->empty()))
      refuse("node " + std::to_string(index) + " has neither a word nor children");
    if (children == nullptr) continue;
    for (auto child = children->rbegin(); child != children->rend(); ++child)
      pending.push_back({&*child, index});
  }
  return tree;
}

void check_parents(SyntaxTree& tree) {
  std::vector<std::optional<std::size_t>> parents(tree.nodes.size());
  for (std::size_t i = 0; i < tree.nodes.size(); ++i)
    for (const std::uint32_t child : tree.nodes[i].children) {
      if (parents[child])
        refuse("node " + std::to_string(child) + " is a child of node " + std::to_string(*parents[child]) +
               " and of node " + std::to_string(i));
      parents[child] = i;
    }
  const auto root = std::find(parents.begin(), parents.end(), std::nullopt);
  if (root == parents.end()) refuse("it has a cycle: every node has a parent");
  if (const auto other = std::find(root + 1, parents.end(), std::nullopt); other != parents.end())
    refuse("nodes " + std::to_string(root - parents.begin()) + " and " +
           std::to_string(other - parents.begin()) + " both have no parent");
  tree.root = static_cast<std::uint32_t>(root - parents.begin());
  // Each has one parent, so those that the root does not reach go round in a circle.
  const std::vector<std::uint32_t> reached = tree.children_first();
  if (reached.size() == tree.nodes.size()) return;
  std::vector<bool> is_reached(tree.nodes.size());
  for (const std::uint32_t node : reached) is_reached[node] = true;
  const auto lost = std::find(is_reached.begin(), is_reached.end(), false) - is_reached.begin();
  refuse("it has a cycle: the root " + std::to_string(tree.root) + " does not reach node " +
         std::to_string(lost));
}

SyntaxTree read_numbered(const json& nodes) {
  if (!nodes.is_array() || nodes.empty()) refuse("\"nodes\" is not a list of nodes");
  SyntaxTree tree;
  for (const json& node : nodes) {
    const std::uint32_t index = add_node(tree);
    const std::string where = " of node " + std::to_string(index);
    if (!node.is_object()) refuse("node " + std::to_string(index) + " is not an object");
    tree.nodes[index].word = read_word(node, where);
    const json::array_t* children = read_children(node, where);
    if (tree.nodes[index].word.empty() && (children == nullptr || children->empty()))
      refuse("node " + std::to_string(index) + " has neither a word nor children");
    if (children == nullptr) continue;
    for (const json& child : *children) {
      if (!child.is_number_unsigned() || child.get<std::uint64_t>() >= nodes.size())
        refuse("a child" + where + " is not the number of a node, which are below " +
               std::to_string(nodes.size()));
      tree.nodes[index].children.push_back(child.get<std::uint32_t>());
    }
  }
  check_parents(tree);
  return tree;
}

SyntaxTree read_json(std::string_view text) {
  if (is_nested_deeper(text))
    refuse("its JSON is nested deeper than " + std::to_string(kMaxJsonDepth) +
           "; \"nodes\" by number, or brackets, may be as deep as they like");
  json document;
  try {
    document = json::parse(text);
  } catch (const json::exception&) {
    refuse("its JSON is malformed");
  }
  const json* nodes = member(document, "nodes");
  return nodes != nullptr ? read_numbered(*nodes) : read_nested(document);
}

}  // namespace

std::vector<std::uint32_t> SyntaxTree::children_first() const {
  std::vector<std::uint32_t> order, pending = {root};
  while (!pending.empty()) {
    const std::uint32_t node = pending.back();
    pending.pop_back();
    order.push_back(node);
    for (const std::uint32_t child : nodes[node].children) pending.push_back(child);
  }
  std::reverse(order.begin(), order.end());  // parents were first
  return order;
}

SyntaxTree parse_tree(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) refuse("it is empty");
  if (text[first] == '{') return read_json(text);
  if (text[first] == '(') return BracketParser(text).parse();
  refuse("\"(\" or \"{\" was expected" + at(first));
}

}  // namespace troupe
