// SPDX-License-Identifier: Apache-2.0
// The format is the one of https://www.sqlite.org/fileformat2.html, sections 1
// and 2, for pages of kPageSize without reserved bytes.
#include "store/sqlite/sqlite_records.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kUsable = SqlitePages::kPageSize;
constexpr std::uint64_t kReadsPerPage = 4;  // of overflow pages, on average, in the whole file

std::uint64_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint64_t>(bytes[at]);
}

// Seven bits a byte, the ninth has eight; nullopt at the end of the bytes.
std::optional<std::uint64_t> read_varint(std::span<const std::byte> bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int i = 0; i < 9; ++i) {
    if (at >= bytes.size()) return std::nullopt;
    const std::uint64_t byte = byte_at(bytes, at++);
    if (i == 8) return value << 8 | byte;
    value = value << 7 | (byte & 0x7f);
    if (byte < 0x80) return value;
  }
  return value;
}

// How much of a payload is in the cell itself; the rest overflows.
std::size_t local_size(std::uint64_t size, bool is_table) {
  const std::size_t most = is_table ? kUsable - 35 : (kUsable - 12) * 64 / 255 - 23;
  const std::size_t least = (kUsable - 12) * 32 / 255 - 23;
  if (size <= most) return size;
  const std::size_t wanted = least + (size - least) % (kUsable - 4);
  return wanted <= most ? wanted : least;
}

// A type as the record's header says it, with its length and its letter.
struct Column {
  char type = 0;  // 0: none that is looked for
  std::size_t size = 0;
  std::uint64_t serial = 0;
};

Column column_of(std::uint64_t serial) {
  constexpr std::array<std::size_t, 7> kNumberSizes = {0, 1, 2, 3, 4, 6, 8};
  if (serial == 0) return {.type = 'n', .size = 0, .serial = serial};
  if (serial <= 6) return {.type = 'i', .size = kNumberSizes[serial], .serial = serial};
  if (serial == 8 || serial == 9) return {.type = 'i', .size = 0, .serial = serial};
  if (serial < 12) return {};
  return {.type = serial % 2 == 0 ? 'b' : 't', .size = (serial - 12) / 2, .serial = serial};
}

bool fits(std::string_view shape, const std::vector<Column>& columns) {
  return std::equal(
      shape.begin(), shape.end(), columns.begin(), columns.end(), [](char wanted, const Column& column) {
        return wanted == column.type || (wanted == 'o' && (column.type == 'n' || column.type == 'i'));
      });
}

// Empty unless the header is in these bytes and adds up to `size`.
std::vector<Column> read_header(std::span<const std::byte> local, std::uint64_t size,
                                std::size_t& header_size) {
  std::size_t at = 0;
  const auto length = read_varint(local, at);
  if (!length || *length > local.size() || *length > size) return {};
  header_size = *length;
  std::vector<Column> columns;
  std::uint64_t left = size - header_size;
  while (at < header_size) {
    const auto serial = read_varint(local.first(header_size), at);
    if (!serial) return {};
    const Column column = column_of(*serial);
    if (column.type == 0 || column.size > left) return {};
    left -= column.size;
    columns.push_back(column);
  }
  if (left != 0) return {};
  return columns;
}

SqliteValue value_of(const Column& column, std::string_view bytes) {
  if (column.type == 'n') return std::monostate{};
  if (column.type != 'i') return std::string(bytes);
  if (column.size == 0) return static_cast<std::int64_t>(column.serial - 8);
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  const auto unused = static_cast<int>(64 - 8 * column.size);
  return static_cast<std::int64_t>(big_endian(first, column.size) << unused) >> unused;
}

}  // namespace

SqliteRecords::SqliteRecords(const SqlitePages& pages, std::span<const RecordShape> shapes)
    : pages_(pages), shapes_(shapes), overflow_pages_left_(kReadsPerPage * pages.num_pages()) {}

std::vector<SqliteRecord> SqliteRecords::of_page(std::uint32_t number, bool is_known_to_hold_cells) {
  const auto page = pages_.read(number);
  if (!page) return {};
  const auto said = byte_at(*page, 0);
  if (said == 0 && !is_known_to_hold_cells) return {};
  std::array layouts = {Layout::kTableLeaf, Layout::kIndexLeaf, Layout::kIndexInterior};
  std::stable_partition(layouts.begin(), layouts.end(),
                        [&](Layout layout) { return static_cast<std::uint64_t>(layout) == said; });
  for (const Layout layout : layouts)
    if (auto records = read_cells(*page, layout); !records.empty()) return records;
  return {};
}

std::vector<SqliteRecord> SqliteRecords::read_cells(const SqlitePages::Page& page, Layout layout) {
  const std::size_t header_size = layout == Layout::kIndexInterior ? 12 : 8;
  const std::size_t num_cells = std::min<std::size_t>(big_endian(&page[3], 2), (kUsable - header_size) / 2);
  std::vector<SqliteRecord> records;
  for (std::size_t i = 0; i < num_cells; ++i) {
    SqliteRecord record;
    const std::size_t at = big_endian(&page[header_size + 2 * i], 2);
    if (read_cell(page, layout, at, record)) records.push_back(std::move(record));
  }
  return records;
}

bool SqliteRecords::read_cell(const SqlitePages::Page& page, Layout layout, std::size_t at,
                              SqliteRecord& record) {
  const bool is_table = layout == Layout::kTableLeaf;
  if (layout == Layout::kIndexInterior) at += 4;  // the child
  const auto size = read_varint(page, at);
  const auto row = is_table ? read_varint(page, at) : std::optional<std::uint64_t>(0);
  if (!size || !row || *size > std::uint64_t{pages_.num_pages()} * kUsable) return false;
  const std::size_t local = local_size(*size, is_table);
  const bool overflows = local < *size;
  if (at + local + (overflows ? 4 : 0) > page.size()) return false;
  const std::span<const std::byte> bytes(&page[0] + at, local);
  std::size_t header_size = 0;
  const auto columns = read_header(bytes, *size, header_size);
  const auto shape = std::find_if(shapes_.begin(), shapes_.end(), [&](const RecordShape& wanted) {
    return wanted.has_row == is_table && fits(wanted.columns, columns);
  });
  if (shape == shapes_.end()) return false;
  std::string payload(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (overflows &&
      !read_overflow(static_cast<std::uint32_t>(big_endian(&page[at + local], 4)), *size, payload))
    return false;
  record.shape = static_cast<std::size_t>(shape - shapes_.begin());
  record.row = static_cast<std::int64_t>(*row);
  std::size_t begin = header_size;
  for (const Column& column : columns) {
    record.values.push_back(value_of(column, std::string_view(payload).substr(begin, column.size)));
    begin += column.size;
  }
  return true;
}

// Each overflow page begins with the number of the next one.
bool SqliteRecords::read_overflow(std::uint32_t first, std::size_t size, std::string& payload) {
  for (std::uint32_t next = first; payload.size() < size;) {
    if (overflow_pages_left_ == 0) return false;
    overflow_pages_left_ -= 1;
    const auto page = pages_.read(next);
    if (!page) return false;
    const std::size_t count = std::min(size - payload.size(), kUsable - 4);
    payload.append(reinterpret_cast<const char*>(page->data()) + 4, count);
    next = static_cast<std::uint32_t>(big_endian(page->data(), 4));
  }
  return true;
}

}  // namespace troupe
