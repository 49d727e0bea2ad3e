package ai.edgemem.demo;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON: objects are maps, arrays lists, numbers doubles; no android import, so that it runs on any JVM. */
final class Json {
  private static final int DEEPEST = 32;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /**
   * The value that a text is.
   *
   * @throws IllegalArgumentException it is no JSON; the message says where
   */
  static Object parse(String text) {
    Json reader = new Json(text);
    Object value = reader.value(0);
    reader.space();
    if (reader.at != text.length()) {
      throw reader.wrong("more text");
    }
    return value;
  }

  private Object value(int depth) {
    if (depth > DEEPEST) {
      throw wrong("too deep");
    }
    space();
    char c = peek();
    switch (c) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      case 't':
        return word("true", Boolean.TRUE);
      case 'f':
        return word("false", Boolean.FALSE);
      case 'n':
        return word("null", null);
      default:
        return number();
    }
  }

  private Map<String, Object> object(int depth) {
    Map<String, Object> object = new LinkedHashMap<>();
    expect('{');
    space();
    if (peek() == '}') {
      at++;
      return object;
    }
    while (true) {
      space();
      String key = string();
      space();
      expect(':');
      object.put(key, value(depth + 1));
      space();
      if (peek() == '}') {
        at++;
        return object;
      }
      expect(',');
    }
  }

  private List<Object> array(int depth) {
    List<Object> array = new ArrayList<>();
    expect('[');
    space();
    if (peek() == ']') {
      at++;
      return array;
    }
    while (true) {
      array.add(value(depth + 1));
      space();
      if (peek() == ']') {
        at++;
        return array;
      }
      expect(',');
    }
  }

  private String string() {
    expect('"');
    StringBuilder made = new StringBuilder();
    while (true) {
      char c = peek();
      at++;
      if (c == '"') {
        return made.toString();
      }
      if (c < ' ') {
        throw wrong("a control character in a string");
      }
      made.append(c == '\\' ? escaped() : c);
    }
  }

  private char escaped() {
    char c = peek();
    at++;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        return c;
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u':
        return unicode();
      default:
        throw wrong("no such escape");
    }
  }

  private char unicode() {
    if (at + 4 > text.length()) {
      throw wrong("the text ends");
    }
    int code = 0;
    for (int i = 0; i < 4; i++) {
      int digit = Character.digit(text.charAt(at++), 16);
      if (digit < 0) {
        throw wrong("no hexadecimal digit");
      }
      code = 16 * code + digit;
    }
    return (char) code;
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw wrong("no value");
    }
    at += word.length();
    return value;
  }

  private Double number() {
    int start = at;
    while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    try {
      return Double.valueOf(text.substring(start, at));
    } catch (NumberFormatException e) {
      at = start;
      throw wrong("no value");
    }
  }

  private void space() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private char peek() {
    if (at >= text.length()) {
      throw wrong("the text ends");
    }
    return text.charAt(at);
  }

  private void expect(char c) {
    if (peek() != c) {
      throw wrong("no " + c);
    }
    at++;
  }

  private IllegalArgumentException wrong(String what) {
    return new IllegalArgumentException("no JSON: " + what + " at character " + at);
  }
}
