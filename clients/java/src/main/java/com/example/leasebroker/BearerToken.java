package com.example.leasebroker;

/** The rules for the text of a bearer token. */
final class BearerToken {
  private BearerToken() {}

  /** Returns a token without the white space around it. Throws if it cannot be sent. The error does not contain the token. */
  static String check(String token) {
    String text = token == null ? "" : token.strip();
    if (text.isEmpty()) {
      throw new IllegalArgumentException("the token is empty");
    }
    for (int i = 0; i < text.length(); i++) {
      if (text.charAt(i) < ' ' || text.charAt(i) > '~') {
        throw new IllegalArgumentException("character " + (i + 1) + " of the token is not a printable ASCII character");
      }
    }
    return text;
  }
}
