package android.net;

public abstract class Uri {
    public abstract String getHost();

    public abstract String getPath();

    public static Uri parse(String text) {
        java.net.URI address = java.net.URI.create(text);
        return new Uri() {
            @Override
            public String getHost() {
                return address.getHost();
            }

            @Override
            public String getPath() {
                return address.getPath();
            }
        };
    }
}
