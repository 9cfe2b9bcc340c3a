// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/contexts/keychain.h"

// Declared by hand, so that the file compiles without the frameworks' headers
// (tests/macos).
extern "C" {
// CoreFoundation
using CFTypeRef = const void*;
using CFIndex = long;
extern const void* const kCFBooleanTrue;
// Structures there; only their addresses matter here.
extern const char kCFTypeDictionaryKeyCallBacks;
extern const char kCFTypeDictionaryValueCallBacks;
extern CFTypeRef CFStringCreateWithCString(CFTypeRef allocator,
                                           const char* text, uint32_t encoding);
extern CFTypeRef CFDataCreate(CFTypeRef allocator, const uint8_t* bytes,
                              CFIndex length);
extern const uint8_t* CFDataGetBytePtr(CFTypeRef data);
extern CFIndex CFDataGetLength(CFTypeRef data);
extern CFTypeRef CFDictionaryCreate(CFTypeRef allocator, const void** keys,
                                    const void** values, CFIndex count,
                                    const void* key_callbacks,
                                    const void* value_callbacks);
extern void CFRelease(CFTypeRef object);
// Security
extern const void* const kSecAttrAccount;
extern const void* const kSecAttrLabel;
extern const void* const kSecAttrService;
extern const void* const kSecClass;
extern const void* const kSecClassGenericPassword;
extern const void* const kSecReturnData;
extern const void* const kSecValueData;
extern int32_t SecItemAdd(CFTypeRef attributes, CFTypeRef* result);
extern int32_t SecItemCopyMatching(CFTypeRef query, CFTypeRef* result);
extern int32_t SecItemDelete(CFTypeRef query);
}

namespace mpsd::client {
namespace {

constexpr uint32_t kUtf8 = 0x08000100;
constexpr int32_t kSuccess = 0;
constexpr int32_t kItemNotFound = -25300;
constexpr char kService[] = "mpsctl";

// A Core Foundation object that is released with this one.
class Owned {
 public:
  explicit Owned(CFTypeRef object) : object_(object) {}
  explicit Owned(const std::string& text)
      : object_(CFStringCreateWithCString(nullptr, text.c_str(), kUtf8)) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) CFRelease(object_);
  }
  CFTypeRef get() const { return object_; }

 private:
  const CFTypeRef object_;
};

// Passes the dictionary that names the item of `context`, with `more` members,
// to `function`.
template <typename Function>
int32_t WithItem(const std::string& context,
                 const std::vector<std::pair<CFTypeRef, CFTypeRef>>& more,
                 Function function) {
  const Owned service{std::string(kService)};
  const Owned account{context};
  std::vector<const void*> keys = {kSecClass, kSecAttrService, kSecAttrAccount};
  std::vector<const void*> values = {kSecClassGenericPassword, service.get(),
                                     account.get()};
  for (const auto& [key, value] : more) {
    keys.push_back(key);
    values.push_back(value);
  }
  const Owned dictionary(CFDictionaryCreate(
      nullptr, keys.data(), values.data(), static_cast<CFIndex>(keys.size()),
      &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks));
  return function(dictionary.get());
}

absl::Status Fault(int32_t code) {
  return absl::UnavailableError(
      absl::StrCat("the keychain does not give the token (status ", code,
                   "): over ssh it is locked until `security unlock-keychain`; "
                   "`mpsctl login` there keeps the token in a file"));
}

}  // namespace

absl::Status KeepInKeychain(const std::string& context,
                            const std::string& secret) {
  if (absl::Status status = RemoveFromKeychain(context); !status.ok()) {
    return status;
  }
  const Owned data(CFDataCreate(nullptr,
                                reinterpret_cast<const uint8_t*>(secret.data()),
                                static_cast<CFIndex>(secret.size())));
  const Owned label{absl::StrCat("mpsctl: ", context)};
  const int32_t code = WithItem(
      context, {{kSecValueData, data.get()}, {kSecAttrLabel, label.get()}},
      [](CFTypeRef item) { return SecItemAdd(item, nullptr); });
  return code == kSuccess ? absl::OkStatus() : Fault(code);
}

absl::StatusOr<std::string> ReadFromKeychain(const std::string& context) {
  CFTypeRef found = nullptr;
  const int32_t code = WithItem(
      context, {{kSecReturnData, kCFBooleanTrue}},
      [&](CFTypeRef item) { return SecItemCopyMatching(item, &found); });
  const Owned data(found);
  if (code == kItemNotFound) {
    return absl::NotFoundError(
        absl::StrCat("the keychain has no token for the context ", context,
                     " any more: log in again with `mpsctl login`"));
  }
  if (code != kSuccess || found == nullptr) return Fault(code);
  return std::string(reinterpret_cast<const char*>(CFDataGetBytePtr(found)),
                     static_cast<size_t>(CFDataGetLength(found)));
}

absl::Status RemoveFromKeychain(const std::string& context) {
  const int32_t code =
      WithItem(context, {}, [](CFTypeRef item) { return SecItemDelete(item); });
  return code == kSuccess || code == kItemNotFound ? absl::OkStatus()
                                                   : Fault(code);
}

}  // namespace mpsd::client
