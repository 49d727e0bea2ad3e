package android.content;

import android.net.Uri;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.InputStream;

/** A stand-in: a Uri is the path of a file. */
public abstract class ContentResolver {
  public ContentResolver(Context context) {}

  public final InputStream openInputStream(Uri uri) throws FileNotFoundException {
    return new FileInputStream(uri.toString());
  }
}
