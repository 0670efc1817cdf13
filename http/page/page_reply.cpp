// SPDX-License-Identifier: Apache-2.0
#include "http/page/page_reply.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "http/page/page_files.hpp"

namespace troupe {
namespace {

constexpr std::string_view kIndex = "index.html";

// Trusted types: text that a script would turn into HTML is an error, so that what a
// model writes is text whatever the scripts do. A browser asks each time whether a
// file has changed, since the next troupe has other files under the same names.
constexpr std::string_view kFields =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-cache\r\n";

std::string_view content_type_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {
      {{".html", "text/html; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".svg", "image/svg+xml"}}};
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(),
                                  [name](const auto& entry) { return name.ends_with(entry.first); });
  return type == kTypes.end() ? "application/octet-stream" : type->second;
}

}  // namespace

std::optional<Reply> page_reply(std::string_view name, std::string_view known) {
  const auto files = page_files();
  const auto file =
      std::find_if(files.begin(), files.end(),
                   [wanted = name.empty() ? kIndex : name](const auto& f) { return f.name == wanted; });
  if (file == files.end()) return std::nullopt;
  Reply reply{.content_type = content_type_of(file->name), .body = {}};
  reply.more_fields.append(kFields).append("ETag: ").append(file->etag).append("\r\n");
  if (known.find(file->etag) == std::string_view::npos) {
    reply.body = file->text;
  } else {
    reply.status = 304;
  }
  return reply;
}

}  // namespace troupe
