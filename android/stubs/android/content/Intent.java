package android.content;

import android.net.Uri;

public class Intent {
  public static final String ACTION_GET_CONTENT = "android.intent.action.GET_CONTENT";
  public static final String CATEGORY_OPENABLE = "android.intent.category.OPENABLE";

  public Intent(String action) {
    throw new RuntimeException("stub");
  }

  public Intent setType(String type) {
    throw new RuntimeException("stub");
  }

  public Intent addCategory(String category) {
    throw new RuntimeException("stub");
  }

  public Uri getData() {
    throw new RuntimeException("stub");
  }
}
